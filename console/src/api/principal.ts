import { queryOptions, useSuspenseQuery } from "@tanstack/react-query";

import { api, ApiError, dataOf, SIGNED_IN } from "@/api/client";
import { setCsrf } from "@/api/csrf";
import { queryClient } from "@/api/queries";
import type { components } from "@/api/schema";

/** Who is signed in. */
export type Me = components["schemas"]["Me"];
export type Role = Me["roles"][number];

const otherTabs = new BroadcastChannel("toolcrib-sign-in");
otherTabs.onmessage = () => window.dispatchEvent(new Event(SIGNED_IN));

let isAnnounced = false;

/** Tell other tabs who is signed in now, as an issuer may just have led here. Once: they ask too. */
function announceOnce(me: Me): void {
  if (!isAnnounced) otherTabs.postMessage(me.principal);
  isAnnounced = true;
}

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async (): Promise<Me> => {
    const me = dataOf(await api.GET("/v1/me"));
    setCsrf(me.csrf ?? null);
    announceOnce(me);
    return me;
  },
  staleTime: Infinity,
  refetchOnWindowFocus: false,
  retry: (count, error) => "isOffline" in error && error.isOffline === true && count < 30,
});

export function useMe(): Me {
  return useSuspenseQuery(meQuery).data;
}

/** Whether a principal has one of the roles; an admin has them all. */
export function can(me: Me, ...roles: Role[]): boolean {
  return me.roles.includes("admin") || roles.some((role) => me.roles.includes(role));
}

/** Exchange a one-time code or a token for the cookie of this browser. */
export async function signIn(proof: { code: string } | { token: string }): Promise<Me> {
  const me = dataOf(await api.POST("/v1/sign-in", { body: proof }));
  setCsrf(me.csrf ?? null);
  queryClient.setQueryData(meQuery.queryKey, me);
  otherTabs.postMessage(me.principal);
  window.dispatchEvent(new Event(SIGNED_IN));
  return me;
}

/** End the sign-in of this browser, and leave nothing of what it has read on the page. */
export async function signOut(): Promise<void> {
  await api.POST("/v1/sign-out", { body: {} }).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.status === 401)) throw error;
  });
  setCsrf(null);
  window.location.assign("/sign-in");
}
