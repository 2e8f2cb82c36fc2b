import { useCallback, useState } from "react";

const drafts = new Map<string, unknown>();

/** State that outlives its component: what somebody typed is there when they come back. */
export function useDraft<T>(key: string, first: () => T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => (drafts.has(key) ? (drafts.get(key) as T) : first()));
  const keep = useCallback(
    (next: T) => {
      drafts.set(key, next);
      setValue(next);
    },
    [key],
  );
  return [value, keep];
}

/** Forget the drafts about something that is settled. */
export function forgetDrafts(prefix: string): void {
  for (const key of drafts.keys()) if (key.startsWith(prefix)) drafts.delete(key);
}
