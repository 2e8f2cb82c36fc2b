import { queryOptions } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";

export type AgentFacts = components["schemas"]["AgentFacts"];

/** What answers prompts at this server, or how to configure it. */
export const agentQuery = queryOptions({
  queryKey: ["agent"],
  queryFn: async (): Promise<AgentFacts> => dataOf(await api.GET("/v1/capabilities")).agent,
  staleTime: 60_000,
});

/** The tools that the agent of a new conversation would have. */
export const agentToolsQuery = queryOptions({
  queryKey: ["agent", "tools"],
  queryFn: async () => {
    const catalog = dataOf(await api.GET("/v1/catalog"));
    return catalog.tools.filter((tool) => tool.withheld === null);
  },
  staleTime: 60_000,
});
