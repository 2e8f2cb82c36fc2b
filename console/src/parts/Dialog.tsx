import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import { useRef, type ReactNode } from "react";

import { messages } from "@/messages";
import styles from "@/parts/Dialog.module.css";

export interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  description?: ReactNode;
  children: ReactNode;
  size?: "normal" | "wide";
}

/**
 * A dialog that holds the focus. What opens in it has the focus on its title, so that no key that
 * was meant for the page decides anything. When it closes, what had the focus before has it again.
 */
export function Dialog({ open, onClose, title, description, children, size }: DialogProps) {
  const opener = useRef<Element | null>(null);
  return (
    <Radix.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className={styles.overlay} />
        <Radix.Content
          className={`${styles.content} ${size === "wide" ? styles.wide : ""}`}
          onOpenAutoFocus={(event) => {
            opener.current = document.activeElement;
            focusTitle(event);
          }}
          onCloseAutoFocus={(event) => {
            // Without this the focus goes to a trigger, which dialogs that open by a key have not.
            event.preventDefault();
            if (opener.current instanceof HTMLElement) opener.current.focus();
          }}
          {...(description === undefined ? { "aria-describedby": undefined } : {})}
        >
          <header className={styles.header}>
            <Radix.Title tabIndex={-1} className={styles.title} data-dialog-title="">
              {title}
            </Radix.Title>
            <Radix.Close className={styles.close} aria-label={messages.parts.close}>
              <X aria-hidden size={18} />
            </Radix.Close>
          </header>
          {description !== undefined && (
            <Radix.Description className={styles.description}>{description}</Radix.Description>
          )}
          <div className={styles.body}>{children}</div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

function focusTitle(event: Event): void {
  event.preventDefault();
  const content = event.currentTarget;
  if (content instanceof HTMLElement) {
    content.querySelector<HTMLElement>("[data-dialog-title]")?.focus();
  }
}

/** The row of buttons at the end of a dialog. */
export function DialogActions({ children }: { children: ReactNode }) {
  return <div className={styles.actions}>{children}</div>;
}
