import { useEffect } from "react";

import type { Stop } from "@/parts/timeline/filter";

interface ArrowKeys {
  stops: readonly Stop[];
  selected: number | null;
  rowOf: (seq: number) => string | null;
  callOf: (seq: number) => string | null;
  select: (seq: number | null) => void;
}

/** Where keys belong to what has the focus. */
const OWN_KEYS =
  "input, textarea, select, [role=menu], [role=dialog], [role=tablist], [contenteditable]";

/** The arrow keys move from event to event, Escape closes the details. */
export function useArrowKeys({ stops, selected, rowOf, callOf, select }: ArrowKeys): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target;
      if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
      if (!(target instanceof Element) || target.closest(OWN_KEYS) !== null) return;
      const isInTranscript = target.closest("[data-transcript]") !== null;
      if (event.key === "Escape" && selected !== null) return select(null);
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      if (selected === null && !isInTranscript) return;
      const next = nextStop(stops, selected, event.key === "ArrowDown" ? 1 : -1, rowOf, callOf);
      if (next === null) return;
      event.preventDefault();
      select(next.seq);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [stops, selected, rowOf, callOf, select]);
}

/** The stop before or after the chosen event; the last one when none is chosen. */
export function nextStop(
  stops: readonly Stop[],
  selected: number | null,
  step: 1 | -1,
  rowOf: (seq: number) => string | null,
  callOf: (seq: number) => string | null,
): Stop | null {
  if (selected === null) return stops.at(-1) ?? null;
  const rowKey = rowOf(selected);
  const callId = callOf(selected);
  const index = stops.findIndex(
    (stop) => stop.rowKey === rowKey && (callId === null || stop.callId === callId),
  );
  return index < 0 ? (stops.at(-1) ?? null) : (stops[index + step] ?? null);
}
