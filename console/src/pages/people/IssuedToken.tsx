import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { CopyButton } from "@/parts/CopyButton";
import { DialogActions } from "@/parts/Dialog";
import type { NewToken } from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";

/** The secret of a new token, which is shown here and never again. */
export function IssuedToken({ issued, onDone }: { issued: NewToken; onDone: () => void }) {
  return (
    <div className={styles.form}>
      <p role="status">{messages.people.shownOnce(issued.facts.name)}</p>
      <div className={styles.secret}>
        <code data-secret="">{issued.token}</code>
        <CopyButton text={issued.token} />
      </div>
      <p className={styles.soft}>{messages.people.shownOnceHint}</p>
      <DialogActions>
        <Button look="strong" onClick={onDone}>
          {messages.people.done}
        </Button>
      </DialogActions>
    </div>
  );
}
