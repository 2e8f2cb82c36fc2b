import type { DecisionDialogProps } from "@/pages/inbox/DecisionDialogs";
import { useDecider } from "@/pages/inbox/decider";
import { useDraft } from "@/pages/inbox/draft";
import { intentOf } from "@/pages/inbox/intent";
import { isOver, OutcomeNote } from "@/pages/inbox/OutcomeNote";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { SchemaForm } from "@/parts/form/SchemaForm";
import { faultsOf } from "@/parts/form/validator";
import { Text } from "@/parts/untrusted";

const SECRET = "[secret]";

/** Other arguments for the call, in a form of the tool's schema. */
export function EditDialog({ approval, onClose, onOutcome }: DecisionDialogProps) {
  const [value, setValue] = useDraft<unknown>(`${approval.approval_id} edit`, () =>
    structuredClone(approval.edited_arguments ?? approval.arguments),
  );
  const { send, isBusy, outcome } = useDecider(approval, onOutcome);
  const faults = outcome?.kind === "faults" ? outcome.faults : [];
  // A secret is shown as a word, which need not fit the schema; the server has the real one.
  const invalid = faultsOf(approval.parameters, value).filter(
    (fault) => valueAt(value, fault.pointer) !== SECRET,
  );
  const isSame = JSON.stringify(value) === JSON.stringify(approval.arguments);
  const submit = () =>
    void send({ decision: "approve", arguments: value as Record<string, unknown> });
  return (
    <Dialog
      open
      onClose={onClose}
      size="wide"
      title={messages.decision.editTitle}
      description={<Text text={intentOf(approval)} />}
    >
      <SchemaForm
        schema={approval.parameters}
        value={value}
        onChange={setValue}
        faults={faults}
        isDisabled={isBusy}
      />
      <OutcomeNote outcome={outcome} />
      <p aria-live="polite">
        {invalid.length > 0
          ? messages.decision.invalidFields(invalid.length)
          : isSame
            ? messages.decision.notEdited
            : ""}
      </p>
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button
          look="strong"
          disabled={isBusy || isSame || invalid.length > 0 || isOver(outcome)}
          onClick={submit}
        >
          {messages.decision.approveEdited}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

function valueAt(value: unknown, pointer: string): unknown {
  return pointer
    .split("/")
    .slice(1)
    .reduce<unknown>(
      (at, member) =>
        typeof at === "object" && at !== null
          ? (at as Record<string, unknown>)[member.replaceAll("~1", "/").replaceAll("~0", "~")]
          : undefined,
      value,
    );
}
