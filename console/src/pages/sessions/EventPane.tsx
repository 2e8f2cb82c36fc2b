import { X } from "lucide-react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { LoadingState } from "@/parts/State";
import type { Envelope } from "@/parts/timeline/envelope";
import { showable } from "@/parts/untrusted";
import { EventDetail } from "@/pages/sessions/detail";
import styles from "@/pages/sessions/SessionPage.module.css";

/** The details of the chosen event, beside the transcript or below it. */
export function EventPane({
  sessionId,
  seq,
  event,
  events,
  isLoading,
  onClose,
}: {
  sessionId: string;
  seq: number;
  event: Envelope | undefined;
  events: readonly Envelope[];
  isLoading: boolean;
  onClose: () => void;
}) {
  return (
    <div className={styles.pane} role="group" tabIndex={0} aria-label={messages.session.detail}>
      <header className={styles.paneHeader}>
        <h2>
          #{seq} {event === undefined ? "" : showable(event.kind)}
        </h2>
        <Button size="small" aria-label={messages.parts.close} onClick={onClose}>
          <X aria-hidden size={16} />
        </Button>
      </header>
      {isLoading ? (
        <LoadingState />
      ) : event === undefined ? (
        <p>{messages.session.noEvent}</p>
      ) : (
        <EventDetail sessionId={sessionId} seq={seq} event={event} events={events} />
      )}
    </div>
  );
}
