import { X } from "lucide-react";
import { memo } from "react";

import { messages } from "@/messages";
import { Badge, type Tone } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { duration } from "@/parts/format";
import { argumentsOf } from "@/parts/timeline/calls";
import { CallEnd } from "@/parts/timeline/CallEnd";
import { CallPeople } from "@/parts/timeline/CallPeople";
import { EventTime } from "@/parts/timeline/EventTime";
import { statusOf } from "@/parts/timeline/filter";
import { previewOf } from "@/parts/timeline/preview";
import type { CallItem, CallStatus } from "@/parts/timeline/rows";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import styles from "@/parts/timeline/CallCard.module.css";
import { showable, Text } from "@/parts/untrusted";

export const TONES: Record<CallStatus, Tone> = {
  writing: "plain",
  proposed: "plain",
  waiting: "waiting",
  approved: "accent",
  running: "accent",
  asking: "waiting",
  deferred: "waiting",
  completed: "good",
  failed: "bad",
  denied: "warn",
  expired: "warn",
  in_doubt: "bad",
};

/** A call: what it was called with, who decided, how far it is, and what came of it. */
export const CallCard = memo(function CallCard({
  call,
  sessionId,
  isSelected,
  onSelect,
  actions,
}: {
  call: CallItem;
  sessionId: string;
  isSelected: boolean;
  onSelect: ((seq: number) => void) | undefined;
  actions: TranscriptActions;
}) {
  const words = messages.timeline.statuses[call.status];
  const canCancel = call.status === "running" || call.status === "asking";
  return (
    <article
      className={styles.card}
      aria-label={`${showable(call.tool)}, ${words}`}
      data-status={statusOf(call.status)}
      data-selected={isSelected}
      data-call={call.callId}
    >
      <header className={styles.header}>
        <strong className={styles.tool}>
          <Text text={call.tool} />
        </strong>
        <Badge tone={TONES[call.status]}>{words}</Badge>
        {call.place !== null && call.place !== "local" && <Badge>{showable(call.place)}</Badge>}
        <span className={styles.times}>{timesOf(call)}</span>
        <EventTime seq={call.seq} at={call.at} what={showable(call.tool)} onSelect={onSelect} />
      </header>
      <CallArguments call={call} />
      <CallPeople call={call} actions={actions} />
      <CallProgress call={call} />
      <CallEnd call={call} sessionId={sessionId} />
      {canCancel && actions.cancel !== undefined && (
        <div>
          <Button size="small" onClick={() => actions.cancel?.(call)}>
            <X aria-hidden size={14} /> {messages.timeline.cancel}
          </Button>
        </div>
      )}
    </article>
  );
});

function timesOf(call: CallItem): string {
  const parts = [
    call.attempt > 1 ? messages.timeline.attempt(call.attempt) : "",
    call.waited > 0 ? messages.timeline.waited(duration(call.waited)) : "",
    call.duration === null || call.place === "provider"
      ? ""
      : messages.timeline.took(duration(call.duration)),
  ];
  return parts.filter((part) => part !== "").join(" · ");
}

function CallArguments({ call }: { call: CallItem }) {
  const preview = previewOf(argumentsOf(call));
  if (preview.length === 0) return null;
  return (
    <dl className={styles.arguments}>
      {preview.map(([name, text]) => (
        <div key={name}>
          <dt>
            <Text text={name} />
          </dt>
          <dd>
            <Text text={text} most={160} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function CallProgress({ call }: { call: CallItem }) {
  const { progress } = call;
  if (progress === null || call.end !== null) return null;
  const { current, total, message } = progress;
  const label = message === null ? messages.timeline.statuses.running : showable(message);
  return (
    <div className={styles.progress}>
      {total !== null && <progress value={current} max={total} aria-label={label} />}
      <span className={styles.faint}>
        {message !== null && <Text text={message} most={200} />}
        {total !== null && ` ${current} / ${total}`}
      </span>
    </div>
  );
}
