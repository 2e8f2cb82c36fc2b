import { queryOptions } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";

export type PolicyNote = components["schemas"]["PolicyNote"];
export type PolicyInForce = components["schemas"]["PolicyInForce"];

export const policyQuery = queryOptions({
  queryKey: ["policy"],
  queryFn: async () => dataOf(await api.GET("/v1/policy")),
  refetchInterval: 15_000,
});

/** The check of a draft. The notes of the text before stay until those of the new one are there. */
export function checkQuery(text: string, isWanted: boolean) {
  return queryOptions({
    queryKey: ["policy", "check", text],
    queryFn: async ({ signal }) =>
      dataOf(await api.POST("/v1/policy-checks", { body: { text }, signal })),
    enabled: isWanted,
    placeholderData: (before) => before,
    staleTime: Infinity,
    gcTime: 60_000,
  });
}

/** The line that an address points at: `#L12`. */
export function lineOf(hash: string): number | null {
  const match = /^#?L(\d{1,7})$/.exec(hash);
  return match?.[1] === undefined ? null : Number(match[1]);
}

/** How many notes are faults, and how many are warnings. */
export function countsOf(notes: PolicyNote[]): { faults: number; warnings: number } {
  const faults = notes.filter((note) => note.level === "error").length;
  return { faults, warnings: notes.length - faults };
}

export interface TextRange {
  from: number;
  to: number;
}

/** Where a note is, in characters from the start of a text with these lines. */
export function rangeOf(note: PolicyNote, lineAt: (line: number) => TextRange | null): TextRange {
  const line = lineAt(note.line) ?? { from: 0, to: 0 };
  const from = Math.min(line.from + note.column - 1, line.to);
  return { from, to: Math.max(from, Math.min(line.from + note.end_column - 1, line.to)) };
}
