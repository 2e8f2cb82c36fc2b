import type { ApprovalContext } from "@/api/inbox";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { duration } from "@/parts/format";
import { useNow } from "@/parts/Time";

const SOON = 120;

/** What happens if nobody answers, and how long there is. */
export function Deadline({
  deadline,
  unanswered,
}: {
  deadline: number | null;
  unanswered: ApprovalContext["unanswered"] | undefined;
}) {
  if (deadline === null) {
    return <>{unanswered === "denied" ? messages.inbox.denied : messages.inbox.waits}</>;
  }
  return <Countdown deadline={deadline} />;
}

function Countdown({ deadline }: { deadline: number }) {
  const left = Math.max(0, Math.ceil(deadline - useNow()));
  if (left === 0) return <span className={styles.late}>{messages.inbox.expired}</span>;
  return (
    <span className={left <= SOON ? styles.late : undefined}>
      {messages.inbox.expires(duration(left))}
    </span>
  );
}
