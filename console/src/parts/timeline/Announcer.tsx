import { useEffect, useRef, useState } from "react";

import { messages } from "@/messages";
import { showable } from "@/parts/untrusted";
import type { CallStatus, Row } from "@/parts/timeline/rows";

const WORDS: Partial<Record<CallStatus, (tool: string) => string>> = {
  waiting: messages.timeline.nowWaiting,
  asking: messages.timeline.nowAsking,
  failed: messages.timeline.nowFailed,
};
const MOST = 200;

/** Tells screen readers what came last: an answer, or a call that needs somebody. */
export function Announcer({ rows }: { rows: readonly Row[] }) {
  const [words, setWords] = useState("");
  const before = useRef<string | null>(null);
  const last = lastWords(rows);
  useEffect(() => {
    // What was there when the page opened is read in its place.
    if (before.current !== null && last !== before.current) setWords(last);
    if (rows.length > 0) before.current = last;
  }, [last, rows.length]);
  return (
    <p className="sr-only" role="status">
      {words}
    </p>
  );
}

function lastWords(rows: readonly Row[]): string {
  for (let index = rows.length - 1; index >= 0 && index > rows.length - 6; index -= 1) {
    const row = rows[index];
    if (row?.kind === "model" && row.answerSeq !== null) {
      return messages.timeline.said(showable(row.text.slice(0, MOST)));
    }
    if (row?.kind !== "calls") continue;
    for (const call of row.calls) {
      const say = WORDS[call.status];
      if (say !== undefined) return say(showable(call.tool));
    }
  }
  return "";
}
