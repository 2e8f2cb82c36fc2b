import { SendHorizontal, Square } from "lucide-react";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";

import { ApiError } from "@/api/client";
import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { keepDraft, readDraft, type Draft } from "@/pages/chat/drafts";
import { newKey } from "@/pages/chat/prompts";
import { Button } from "@/parts/Button";
import { wordsOf } from "@/parts/State";
import { Tooltip } from "@/parts/Tooltip";

export interface ComposerProps {
  /** The conversation that the draft belongs to; null is a new one. */
  sessionId: string | null;
  /** Send a text; the same text again comes with the same key. Rejects when it was not sent. */
  onSend: (text: string, key: string) => Promise<void>;
  /** Stop the running prompt; absent when none runs. */
  onStop?: (() => Promise<void>) | undefined;
  /** A text to begin with, such as an example; another object takes the place of the draft. */
  suggestion?: { text: string } | null;
}

/** Where a person writes. The draft outlives a reload, and what was not sent stays. */
export function Composer({ sessionId, onSend, onStop, suggestion = null }: ComposerProps) {
  const [draft, setDraft] = useState<Draft>(() => readDraft(sessionId));
  const [fault, setFault] = useState<unknown>(null);
  const [isSending, setIsSending] = useState(false);
  const [isStopping, setIsStopping] = useState(false);
  const input = useRef<HTMLTextAreaElement>(null);

  const change = (next: Draft) => {
    setDraft(next);
    keepDraft(sessionId, next);
  };
  const [taken, setTaken] = useState(suggestion);
  if (suggestion !== taken) {
    setTaken(suggestion);
    if (suggestion !== null) change({ text: suggestion.text, key: null });
  }
  useEffect(() => {
    if (suggestion !== null) input.current?.focus();
  }, [suggestion]);

  const send = async () => {
    const text = draft.text.trim();
    if (text === "" || isSending || onStop !== undefined) return;
    const key = draft.key ?? newKey();
    change({ text: draft.text, key });
    setIsSending(true);
    setFault(null);
    try {
      await onSend(text, key);
      change({ text: "", key: null });
    } catch (error) {
      setFault(error);
    } finally {
      setIsSending(false);
    }
  };
  const stop = async () => {
    setIsStopping(true);
    try {
      await onStop?.();
    } finally {
      setIsStopping(false);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // The Enter that ends a word of an input method sends nothing.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };

  return (
    <div className={styles.composer}>
      {fault !== null && <SendFault error={fault} />}
      <div className={styles.box}>
        <label className={styles.inputLabel} htmlFor="chat-message">
          {messages.chat.message}
        </label>
        <textarea
          id="chat-message"
          ref={input}
          className={styles.input}
          rows={1}
          value={draft.text}
          placeholder={messages.chat.placeholder}
          onChange={(event) => change({ text: event.target.value, key: null })}
          onKeyDown={onKeyDown}
          enterKeyHint="send"
        />
        {onStop === undefined ? (
          <Button
            look="strong"
            disabled={isSending || draft.text.trim() === ""}
            onClick={() => void send()}
          >
            <SendHorizontal aria-hidden size={16} />
            {isSending ? messages.chat.sending : messages.chat.send}
          </Button>
        ) : (
          <Tooltip text={messages.chat.stopHint}>
            <Button look="danger" disabled={isStopping} onClick={() => void stop()}>
              <Square aria-hidden size={14} />
              {isStopping ? messages.chat.stopping : messages.chat.stop}
            </Button>
          </Tooltip>
        )}
      </div>
    </div>
  );
}

function SendFault({ error }: { error: unknown }) {
  const isOffline = error instanceof ApiError && error.isOffline;
  return (
    <p className={styles.fault} role="alert">
      <strong>{messages.chat.notSent}.</strong>{" "}
      {isOffline ? messages.chat.notSentOffline : wordsOf(error)}
    </p>
  );
}
