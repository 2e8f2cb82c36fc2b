/** The difference of two texts, line by line. Loaded with the first one that is shown. */

import { structuredPatch } from "diff";

import { readHunks, type PatchLine } from "./patch";

const CONTEXT_LINES = 3;
/** More edits than this take long to find; the texts are then shown one after the other. */
const MOST_EDITS = 5_000;

export function difference(before: string, after: string): readonly PatchLine[] {
  const patch = structuredPatch("", "", before, after, undefined, undefined, {
    context: CONTEXT_LINES,
    maxEditLength: MOST_EDITS,
  });
  if (patch === undefined) {
    return [
      ...before.split("\n").map((text) => ({ kind: "removed", text }) as const),
      ...after.split("\n").map((text) => ({ kind: "added", text }) as const),
    ];
  }
  return patch.hunks.flatMap((hunk) => [
    {
      kind: "place",
      text: `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`,
    } as const,
    // A text in arguments need not end with a line break.
    ...readHunks(hunk.lines.filter((line) => !line.startsWith("\\")).join("\n")),
  ]);
}
