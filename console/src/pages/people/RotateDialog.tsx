import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Field } from "@/parts/Field";
import { wordsOf } from "@/parts/State";
import { IssuedToken } from "@/pages/people/IssuedToken";
import { rotateToken, type TokenFacts } from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";

const KEPT = [0, 3_600, 86_400] as const;

/** Replaces a token; its holder may get time to switch. */
export function RotateDialog({
  token,
  isOpen,
  onClose,
}: {
  token: TokenFacts;
  isOpen: boolean;
  onClose: () => void;
}) {
  const [kept, setKept] = useState(0);
  const queries = useQueryClient();
  const rotate = useMutation({ mutationFn: rotateToken });
  const close = () => {
    // Not before: the row of the old token goes then, and with it the only sight of the new one.
    if (rotate.isSuccess) void queries.invalidateQueries({ queryKey: ["people"] });
    rotate.reset();
    onClose();
  };
  return (
    <Dialog
      open={isOpen}
      onClose={close}
      title={messages.people.replaceTitle(token.name)}
      description={messages.people.replaceHint}
    >
      {rotate.isSuccess ? (
        <IssuedToken issued={rotate.data} onDone={close} />
      ) : (
        <div className={styles.form}>
          <Field
            label={messages.people.keepOld}
            fault={rotate.isError ? wordsOf(rotate.error) : undefined}
          >
            {(ids) => (
              <select
                {...ids}
                value={kept}
                onChange={(event) => setKept(Number(event.target.value))}
              >
                {KEPT.map((seconds) => (
                  <option key={seconds} value={seconds}>
                    {messages.people.kept[seconds]}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <DialogActions>
            <Button onClick={close}>{messages.parts.cancel}</Button>
            <Button
              look="strong"
              disabled={rotate.isPending}
              onClick={() => rotate.mutate({ id: token.id, keepOldSeconds: kept })}
            >
              {messages.people.replaceAction}
            </Button>
          </DialogActions>
        </div>
      )}
    </Dialog>
  );
}
