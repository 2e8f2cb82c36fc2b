import { useSyncExternalStore } from "react";

import { fullTime, relativeTime } from "@/parts/format";

const TICK = 1000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Math.floor(Date.now() / 1000);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Math.floor(Date.now() / 1000);
    for (const each of listeners) each();
  }, TICK);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time in seconds since 1970. All who use it share one timer. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** A time: how long ago or ahead, and in full on hover. */
export function Time({ at }: { at: number }) {
  const current = useNow();
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={fullTime(at)}>
      {relativeTime(at, current)}
    </time>
  );
}
