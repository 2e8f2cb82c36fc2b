import type { DecisionDialogProps } from "@/pages/inbox/DecisionDialogs";
import { useDecider } from "@/pages/inbox/decider";
import { useDraft } from "@/pages/inbox/draft";
import { intentOf } from "@/pages/inbox/intent";
import { isOver, OutcomeNote } from "@/pages/inbox/OutcomeNote";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Field } from "@/parts/Field";
import { Text } from "@/parts/untrusted";

/** A no, with the reason that the model reads. */
export function DenyDialog({ approval, onClose, onOutcome }: DecisionDialogProps) {
  const [reason, setReason] = useDraft(`${approval.approval_id} deny`, () => "");
  const { send, isBusy, outcome } = useDecider(approval, onOutcome);
  const written = reason.trim();
  const submit = () =>
    void send({ decision: "deny", ...(written === "" ? {} : { reason: written }) });
  return (
    <Dialog
      open
      onClose={onClose}
      title={messages.decision.denyTitle}
      description={<Text text={intentOf(approval)} />}
    >
      <Field label={messages.decision.reason} hint={messages.decision.reasonHint}>
        {(ids) => (
          <textarea
            {...ids}
            rows={4}
            value={reason}
            disabled={isBusy}
            onChange={(event) => setReason(event.target.value)}
          />
        )}
      </Field>
      <OutcomeNote outcome={outcome} />
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button look="danger" disabled={isBusy || isOver(outcome)} onClick={submit}>
          {messages.decision.deny}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
