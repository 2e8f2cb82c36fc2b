import { useEffect, useMemo, useSyncExternalStore } from "react";

import { serverSource, SessionFeed, type FeedSnapshot } from "@/parts/timeline/feed";

export interface Feed extends FeedSnapshot {
  loadOlder: () => void;
  loadTo: (seq: number) => Promise<void>;
  retry: () => void;
}

/** The events of a session, live, for as long as a component shows them. */
export function useSessionFeed(sessionId: string): Feed {
  const feed = useMemo(() => new SessionFeed(serverSource(sessionId)), [sessionId]);
  useEffect(() => {
    void feed.start();
    return () => feed.stop();
  }, [feed]);
  const snapshot = useSyncExternalStore(feed.subscribe, feed.read);
  return useMemo(
    () => ({
      ...snapshot,
      loadOlder: () => void feed.loadOlder(),
      loadTo: (seq: number) => feed.loadTo(seq),
      retry: () => {
        feed.stop();
        void feed.start();
      },
    }),
    [snapshot, feed],
  );
}
