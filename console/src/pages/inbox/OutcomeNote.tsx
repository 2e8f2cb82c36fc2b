import { Text } from "@/parts/untrusted";
import { messages } from "@/messages";
import type { Approval } from "@/api/inbox";
import { decidedText, type Outcome } from "@/pages/inbox/decision";
import styles from "@/pages/inbox/inbox.module.css";

/** Why a decision did not count, in words. What was typed stays where it is. */
export function OutcomeNote({ outcome }: { outcome: Outcome | null }) {
  if (outcome === null || outcome.kind === "done") return null;
  const tone = outcome.kind === "voted" ? styles.noteGood : styles.noteBad;
  return (
    <p role="alert" className={`${styles.note} ${tone}`}>
      <Text text={outcome.text} />
      {outcome.kind === "over" && <> {messages.decision.kept}</>}
    </p>
  );
}

/** Who decided a call that its transcript still shows as waiting: nobody has taken it up again. */
export function DecidedNote({ approval }: { approval: Approval }) {
  return (
    <p className={styles.quiet}>
      <Text text={decidedText(approval)} /> {messages.decision.notTakenUp}
    </p>
  );
}

/** Whether nothing can be decided any more. */
export function isOver(outcome: Outcome | null): boolean {
  return outcome?.kind === "over" || outcome?.kind === "done" || outcome?.kind === "voted";
}
