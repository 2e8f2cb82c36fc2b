import { X } from "lucide-react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { CopyButton } from "@/parts/CopyButton";
import { LoadingState } from "@/parts/State";
import type { Envelope } from "@/parts/timeline/envelope";
import { showable } from "@/parts/untrusted";
import { Json, type JsonValue } from "@/parts/values";
import styles from "@/pages/sessions/SessionPage.module.css";

export interface EventDetailProps {
  sessionId: string;
  seq: number;
  event: Envelope | undefined;
  events: readonly Envelope[];
}

/** The details of the chosen event, beside the transcript or below it. */
export function EventPane({
  isLoading,
  onClose,
  ...props
}: EventDetailProps & {
  isLoading: boolean;
  onSelect: (seq: number) => void;
  onClose: () => void;
}) {
  const { event, seq } = props;
  return (
    <aside className={styles.pane} aria-label={messages.session.detail}>
      <header className={styles.paneHeader}>
        <h2>
          #{seq} {event === undefined ? "" : showable(event.kind)}
        </h2>
        <CopyButton text={window.location.href} label={messages.session.copyLink} />
        <Button size="small" aria-label={messages.parts.close} onClick={onClose}>
          <X aria-hidden size={16} />
        </Button>
      </header>
      {isLoading ? (
        <LoadingState />
      ) : event === undefined ? (
        <p>{messages.session.noEvent}</p>
      ) : (
        <Json value={event.data as JsonValue} />
      )}
    </aside>
  );
}
