import { queryOptions } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";
import type { Tone } from "@/parts/Badge";

export type ServerFacts = components["schemas"]["ServerFacts"];
export type ToolChange = components["schemas"]["ToolChangeFacts"];

export const STATE_TONES: Record<ServerFacts["state"], Tone> = {
  connected: "good",
  connecting: "accent",
  disconnected: "bad",
  invalid: "bad",
};

/** How often the list is read again: a server that is away is watched more closely. */
export function refreshAfter(servers: readonly ServerFacts[] | undefined): number {
  const isAway = servers?.some((server) => server.state !== "connected") ?? false;
  return isAway ? 1_000 : 2_000;
}

export const serversQuery = queryOptions({
  queryKey: ["servers"],
  queryFn: async () => dataOf(await api.GET("/v1/servers")).servers,
  refetchInterval: (query) => refreshAfter(query.state.data),
});
