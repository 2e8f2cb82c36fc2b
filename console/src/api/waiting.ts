import { useQuery } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";

/** How many approval requests the principal can see that wait for a decision. */
export function useWaitingCount(): number {
  const inbox = useQuery({
    queryKey: ["approvals", "count"],
    queryFn: async () => dataOf(await api.GET("/v1/approvals")).approvals.length,
    refetchInterval: 5_000,
  });
  return inbox.data ?? 0;
}
