import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import type { Approval } from "@/api/inbox";
import { decide, newKey, type Outcome } from "@/pages/inbox/decision";
import { intentOf } from "@/pages/inbox/intent";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Field } from "@/parts/Field";
import { Text } from "@/parts/untrusted";

/** Several requests at once: each is decided on its own, and what became of each is told. */
export function BulkDialog({
  approvals,
  decision,
  onClose,
}: {
  approvals: readonly Approval[];
  decision: "approve" | "deny";
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [keys] = useState(() => new Map(approvals.map((each) => [each.approval_id, newKey()])));
  const [reason, setReason] = useState("");
  const [outcomes, setOutcomes] = useState<Record<string, Outcome>>({});
  const [isBusy, setIsBusy] = useState(false);
  const isClosed = useRef(false);
  useEffect(() => {
    isClosed.current = false;
    return () => {
      isClosed.current = true;
    };
  }, []);
  const left = approvals.filter((each) => isOpen(outcomes[each.approval_id]));
  const run = async () => {
    setIsBusy(true);
    const written = reason.trim();
    const said =
      decision === "deny" && written !== "" ? { decision, reason: written } : { decision };
    for (const approval of left) {
      // Who cancels in the middle decides nothing more.
      if (isClosed.current) break;
      const outcome = await decide(approval, said, keys.get(approval.approval_id) ?? newKey());
      setOutcomes((known) => ({ ...known, [approval.approval_id]: outcome }));
    }
    setIsBusy(false);
    void client.invalidateQueries({ queryKey: ["approvals"] });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      size="wide"
      title={messages.inbox.bulkTitle[decision](approvals.length)}
      description={messages.inbox.final}
    >
      {decision === "deny" && (
        <Field label={messages.decision.reason} hint={messages.decision.reasonHint}>
          {(ids) => (
            <textarea
              {...ids}
              rows={2}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
          )}
        </Field>
      )}
      <ul className={styles.bulk} aria-live="polite">
        {approvals.map((approval) => (
          <BulkItem
            key={approval.approval_id}
            approval={approval}
            outcome={outcomes[approval.approval_id]}
          />
        ))}
      </ul>
      <DialogActions>
        <Button onClick={onClose}>
          {left.length === 0 ? messages.inbox.done : messages.parts.cancel}
        </Button>
        {left.length > 0 && (
          <Button
            look={decision === "approve" ? "strong" : "danger"}
            disabled={isBusy}
            onClick={() => void run()}
          >
            {messages.inbox.bulkStart[decision](left.length)}
          </Button>
        )}
      </DialogActions>
    </Dialog>
  );
}

/** Whether a decision can still be sent: it was not, or nobody knows whether it arrived. */
function isOpen(outcome: Outcome | undefined): boolean {
  return outcome === undefined || (outcome.kind === "failed" && outcome.isUnknown);
}

function BulkItem({ approval, outcome }: { approval: Approval; outcome: Outcome | undefined }) {
  const isGood = outcome?.kind === "done" || outcome?.kind === "voted";
  return (
    <li>
      <span>
        <Text text={intentOf(approval)} />
      </span>
      <span className={outcome === undefined ? styles.quiet : isGood ? styles.good : styles.late}>
        <Text text={outcome?.text ?? messages.inbox.bulkWaiting} />
      </span>
    </li>
  );
}
