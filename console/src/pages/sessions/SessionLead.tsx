import { messages } from "@/messages";
import { Badge, type Tone } from "@/parts/Badge";
import { money } from "@/parts/format";
import { Time } from "@/parts/Time";
import type { FeedState } from "@/parts/timeline/feed";
import type { Feed } from "@/parts/timeline/useSessionFeed";
import { Text } from "@/parts/untrusted";
import type { SessionFacts } from "@/pages/sessions/SessionsPage";
import styles from "@/pages/sessions/SessionPage.module.css";

const TONES: Record<FeedState, Tone> = {
  connecting: "plain",
  live: "good",
  lost: "bad",
  ended: "plain",
  closed: "plain",
};

/** The line below the title: the connection, whose session it is, and what happened in it. */
export function SessionLead({
  sessionId,
  facts,
  feed,
}: {
  sessionId: string;
  facts: SessionFacts | undefined;
  feed: Feed;
}) {
  const waiting = facts?.pending_approvals ?? 0;
  return (
    <span className={styles.lead}>
      <span role="status">
        <Badge tone={TONES[feed.state]}>{messages.session[feed.state]}</Badge>
      </span>
      {waiting > 0 && <Badge tone="waiting">{messages.sessions.waits(waiting)}</Badge>}
      <code>
        <Text text={sessionId} />
      </code>
      {facts?.owner != null && <Text text={facts.owner} />}
      {facts?.created_at != null && (
        <span>
          {messages.sessions.created} <Time at={facts.created_at} />
        </span>
      )}
      <span>{messages.session.events(feed.lastSeq)}</span>
      {facts?.cost != null && <span>{money(facts.cost)}</span>}
    </span>
  );
}
