import type { Approval, DecisionWay } from "@/api/inbox";
import { KEYS } from "@/pages/inbox/keys";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { showable } from "@/parts/untrusted";

const SHOWN = ["approve", "edit", "deny", "answer", "grant"] as const;

/** A button for each thing that the person may do, with its key. None of them has the focus. */
export function DecisionButtons({
  approval,
  ways,
  whyNot,
  isBusy = false,
  keys = "none",
  onWay,
}: {
  approval: Approval;
  ways: readonly DecisionWay[];
  whyNot: string | null;
  isBusy?: boolean;
  /** Whether the keys work here now. They take their room all the same: nothing may move. */
  keys?: "none" | "idle" | "active";
  onWay: (way: DecisionWay) => void;
}) {
  const shown = SHOWN.filter((way) => ways.includes(way));
  return (
    <>
      {whyNot !== null && <p className={styles.quiet}>{whyNot}</p>}
      {shown.length > 0 && (
        <div
          className={styles.buttons}
          role="group"
          aria-label={messages.decision.actions(showable(approval.tool))}
        >
          {shown.map((way) => (
            <Button
              key={way}
              look={way === "approve" ? "strong" : way === "deny" ? "danger" : "plain"}
              disabled={isBusy}
              onClick={() => onWay(way)}
              {...(keys === "active" ? { "aria-keyshortcuts": KEYS[way] } : {})}
            >
              {messages.decision.way[way]}
              {keys !== "none" && (
                <kbd aria-hidden className={keys === "idle" ? styles.idle : undefined}>
                  {KEYS[way]}
                </kbd>
              )}
            </Button>
          ))}
        </div>
      )}
    </>
  );
}
