import { queryOptions } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";
import type { Tone } from "@/parts/Badge";

import { DEFAULT_RANGE, sinceOf, type Range, type ToolsSearch } from "./addresses";

export type CatalogEntry = components["schemas"]["CatalogEntry"];
export type CatalogTool = components["schemas"]["CatalogTool"];
export type RuleInForce = components["schemas"]["RuleInForce"];
export type Effect = RuleInForce["effect"];

/** The beginning of a digest, as people compare it. */
export function shortDigest(digest: string): string {
  return digest.slice(0, 10);
}

export const EFFECT_TONES: Record<Effect, Tone> = { allow: "good", ask: "waiting", deny: "bad" };

/** The place of a rule in its file: `policy.yaml:12`. The folder is left to the hint. */
export function ruleLocation(rule: { file?: string | null; line?: number | null }): string | null {
  if (!rule.file) return null;
  const name = rule.file.slice(rule.file.lastIndexOf("/") + 1);
  return rule.line ? `${name}:${rule.line}` : name;
}

/** The address of a tool: its source only where another tool has the same name. */
export function toolSource(entry: CatalogEntry, all: readonly CatalogEntry[]): string | undefined {
  return all.some((other) => other.name === entry.name && other.id !== entry.id)
    ? entry.source
    : undefined;
}

const PAGE_SIZE = 1_000;

export function catalogQuery(search: ToolsSearch, cursor?: string) {
  return queryOptions({
    queryKey: ["catalog", "list", search, cursor ?? null],
    queryFn: async () => {
      const { range, ...filters } = search;
      const query = { ...filters, since: sinceOf(range), cursor, limit: PAGE_SIZE };
      return dataOf(await api.GET("/v1/catalog", { params: { query } }));
    },
  });
}

export function toolQuery(name: string, source: string | undefined, range: Range | undefined) {
  return queryOptions({
    queryKey: ["catalog", "tool", name, source ?? null, range ?? DEFAULT_RANGE],
    queryFn: async () => {
      const params = { path: { name }, query: { source, since: sinceOf(range) } };
      return dataOf(await api.GET("/v1/catalog/{name}", { params }));
    },
  });
}
