import { useSyncExternalStore } from "react";

import type { StreamState } from "@/api/events";

/** The state of the page's connection to the server. Whoever follows the inbox sets it. */
let state: StreamState = "connecting";
const listeners = new Set<() => void>();

export function setConnection(next: StreamState): void {
  if (next === state) return;
  state = next;
  for (const listener of listeners) listener();
}

export function useConnection(): StreamState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}
