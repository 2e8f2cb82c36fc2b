import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";
import type { Tone } from "@/parts/Badge";

export type Explanation = components["schemas"]["PolicyExplanation"];

export const OUTCOME_TONES: Record<Explanation["outcome"], Tone> = {
  runs: "good",
  waits: "waiting",
  refused: "bad",
  invalid: "bad",
};

export interface ExplainWhat {
  tool: string;
  source: string;
  arguments: Record<string, unknown>;
  principal?: string | undefined;
  groups?: string[] | undefined;
}

/** What would become of a call. Nothing runs and nothing is recorded. */
export async function explain(what: ExplainWhat): Promise<Explanation> {
  return dataOf(await api.POST("/v1/policy-explanations", { body: what }));
}

/** Groups as they are typed: with commas between them. */
export function groupsIn(text: string): string[] | undefined {
  const groups = text
    .split(",")
    .map((group) => group.trim())
    .filter((group) => group !== "");
  return groups.length === 0 ? undefined : groups;
}

/** Arguments of a call: a JSON object, or nothing that a call could be made with. */
export function asArguments(value: unknown): Record<string, unknown> | null {
  if (value === undefined || value === null) return {};
  const isObject = typeof value === "object" && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : null;
}
