import { queryOptions, useSuspenseQuery } from "@tanstack/react-query";

import { request } from "@/api/client";
import { setCsrf } from "@/api/csrf";

export type Role = "caller" | "approver" | "auditor" | "admin";

/** Who is signed in. */
export interface Me {
  principal: string;
  roles: Role[];
  groups: string[];
  credential: "token" | "sign_in";
  signed_in_by: "owner" | "token" | "oidc" | null;
  expires_at: number | null;
  csrf: string | null;
}

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async (): Promise<Me> => {
    const me = (await (await request("/v1/me")).json()) as Me;
    setCsrf(me.csrf);
    return me;
  },
  staleTime: Infinity,
  retry: (count, error) => "isOffline" in error && error.isOffline === true && count < 30,
});

export function useMe(): Me {
  return useSuspenseQuery(meQuery).data;
}

/** Whether a principal has one of the roles; an admin has them all. */
export function can(me: Me, ...roles: Role[]): boolean {
  return me.roles.includes("admin") || roles.some((role) => me.roles.includes(role));
}
