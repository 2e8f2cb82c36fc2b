import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";

export type Preview = components["schemas"]["PolicyPreview"];
export type ChangedCall = components["schemas"]["ChangedCall"];
export type ChangeCount = components["schemas"]["ChangeCount"];
export type DoubtCount = components["schemas"]["DoubtCount"];

/** What all pages of a preview came to so far. */
export interface DryRun {
  looked_at: number;
  changed: number;
  unchanged: number;
  unknown: number;
  not_judged: number;
  changes: ChangeCount[];
  doubts: DoubtCount[];
  calls: ChangedCall[];
  cursor: string | null;
}

export const NOTHING: DryRun = {
  looked_at: 0,
  changed: 0,
  unchanged: 0,
  unknown: 0,
  not_judged: 0,
  changes: [],
  doubts: [],
  calls: [],
  cursor: null,
};

/** How many pages are read before the reader is asked whether to go on. */
export const PAGES_AT_ONCE = 10;
const PAGE = 2_000;

/** A preview after one more page of it. */
export function joined(run: DryRun, page: Preview): DryRun {
  return {
    looked_at: run.looked_at + page.looked_at,
    changed: run.changed + page.changed,
    unchanged: run.unchanged + page.unchanged,
    unknown: run.unknown + page.unknown,
    not_judged: run.not_judged + page.not_judged,
    changes: counted(
      [...run.changes, ...page.changes],
      (change) => `${change.tool} ${change.before} ${change.after}`,
    ),
    doubts: counted([...run.doubts, ...page.doubts], (doubt) => doubt.doubt),
    calls: [...run.calls, ...page.calls],
    cursor: page.cursor ?? null,
  };
}

function counted<T extends { calls: number }>(counts: T[], keyOf: (count: T) => string): T[] {
  const sums = new Map<string, T>();
  for (const count of counts) {
    const before = sums.get(keyOf(count));
    sums.set(keyOf(count), { ...count, calls: count.calls + (before?.calls ?? 0) });
  }
  return [...sums.values()].sort((left, right) => right.calls - left.calls);
}

/** Read on, page after page, telling each state, until the end, the limit or the signal. */
export async function readOn(
  draft: string,
  since: string,
  start: DryRun,
  signal: AbortSignal,
  onPage: (run: DryRun) => void,
): Promise<void> {
  let run = start;
  for (let page = 0; page < PAGES_AT_ONCE; page += 1) {
    const cursor = run.cursor === null ? {} : { cursor: run.cursor };
    const body = { draft, since, limit: PAGE, ...cursor };
    run = joined(run, dataOf(await api.POST("/v1/policy-previews", { body, signal })));
    onPage(run);
    if (run.cursor === null) return;
  }
}
