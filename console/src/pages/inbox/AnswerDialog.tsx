import { useState } from "react";

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

/** An answer in the place of the tool, which then does not run: a text, or JSON. */
export function AnswerDialog({ approval, onClose, onOutcome }: DecisionDialogProps) {
  const [text, setText] = useDraft(`${approval.approval_id} answer`, () => "");
  const [isJson, setIsJson] = useState(false);
  const { send, isBusy, outcome } = useDecider(approval, onOutcome);
  const value = isJson ? parsed(text) : { value: text };
  const isReady = value !== null && text.trim() !== "";
  return (
    <Dialog
      open
      onClose={onClose}
      title={messages.decision.answerTitle}
      description={<Text text={intentOf(approval)} />}
    >
      <p>{messages.decision.answerHint}</p>
      <Field
        label={messages.decision.answerLabel}
        fault={value === null && text.trim() !== "" ? messages.decision.notJson : undefined}
      >
        {(ids) => (
          <textarea
            {...ids}
            rows={6}
            value={text}
            disabled={isBusy}
            spellCheck={!isJson}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      <label>
        <input
          type="checkbox"
          checked={isJson}
          onChange={(event) => setIsJson(event.target.checked)}
        />{" "}
        {messages.decision.answerIsJson}
      </label>
      <OutcomeNote outcome={outcome} />
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button
          look="strong"
          disabled={isBusy || !isReady || isOver(outcome)}
          onClick={() => value !== null && void send({ decision: "answer", value: value.value })}
        >
          {messages.decision.answer}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

function parsed(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return null;
  }
}
