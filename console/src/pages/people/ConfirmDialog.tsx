import { useMutation } from "@tanstack/react-query";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { wordsOf } from "@/parts/State";
import styles from "@/pages/people/people.module.css";

/** Asks before something ends that cannot be brought back. */
export function ConfirmDialog({
  isOpen,
  title,
  text,
  action,
  run,
  onClose,
}: {
  isOpen: boolean;
  title: string;
  text: string;
  action: string;
  run: () => Promise<unknown>;
  onClose: () => void;
}) {
  const doing = useMutation({ mutationFn: run, onSuccess: onClose });
  return (
    <Dialog open={isOpen} onClose={onClose} title={title} description={text}>
      {doing.isError && (
        <p role="alert" className={styles.fault}>
          {wordsOf(doing.error)}
        </p>
      )}
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button look="danger" disabled={doing.isPending} onClick={() => doing.mutate()}>
          {action}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
