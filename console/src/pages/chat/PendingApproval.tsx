import { useQuery } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { Approval } from "@/api/inbox";
import { DecisionBar } from "@/pages/inbox/DecisionBar";
import { DecidedNote } from "@/pages/inbox/OutcomeNote";

/** A call that waits: what this person may do about it, or why it is for others. */
export function PendingApproval({ approvalId }: { approvalId: string }) {
  const approval = useQuery({
    queryKey: ["approvals", "one", approvalId],
    queryFn: async ({ signal }): Promise<Approval> => {
      const params = { path: { approval_id: approvalId } };
      return dataOf(await api.GET("/v1/approvals/{approval_id}", { params, signal })) as Approval;
    },
  });
  if (!approval.isSuccess) return null;
  if (approval.data.state !== "pending") return <DecidedNote approval={approval.data} />;
  return <DecisionBar approval={approval.data} />;
}
