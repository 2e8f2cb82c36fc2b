import { memo, useState } from "react";

import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { CallCard } from "@/parts/timeline/CallCard";
import { NoticeLine } from "@/parts/timeline/NoticeLine";
import type { CallsRow, ModelRow, PromptRow, Row } from "@/parts/timeline/rows";
import { EventTime } from "@/parts/timeline/EventTime";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import styles from "@/parts/timeline/RowView.module.css";
import { Markdown, showable, Text, type Source } from "@/parts/untrusted";

interface RowViewProps {
  row: Row;
  sessionId: string;
  isSelected: boolean;
  isFound: boolean;
  selectedCall: string | null;
  onSelect: ((seq: number) => void) | undefined;
  actions: TranscriptActions;
}

const DEEPEST = 6;

/** One row of a transcript. It is drawn again only when it has changed. */
export const RowView = memo(function RowView(props: RowViewProps) {
  const { row, isSelected, isFound } = props;
  const classes = [styles.row, isFound ? styles.found : ""].join(" ");
  return (
    <div
      className={classes}
      data-kind={row.kind}
      data-depth={Math.min(row.depth, DEEPEST)}
      data-selected={isSelected && row.kind !== "calls"}
    >
      <Content {...props} />
    </div>
  );
});

function Content({ row, sessionId, selectedCall, onSelect, actions }: RowViewProps) {
  switch (row.kind) {
    case "prompt":
      return <PromptLines row={row} onSelect={onSelect} />;
    case "model":
      return <ModelLines row={row} onSelect={onSelect} />;
    case "calls":
      return <Calls {...{ row, sessionId, selectedCall, onSelect, actions }} />;
    case "notice":
      return <NoticeLine row={row} onSelect={onSelect} />;
  }
}

const LONG_PROMPT = 2_000;

function PromptLines({ row, onSelect }: { row: PromptRow; onSelect: RowViewProps["onSelect"] }) {
  const [isWhole, setIsWhole] = useState(false);
  const isLong = row.text.length > LONG_PROMPT;
  const tool = row.data["parent_tool"];
  const isNested = row.parentCallId !== null;
  const title = isNested
    ? messages.timeline.nestedPrompt(typeof tool === "string" ? showable(tool) : "")
    : messages.timeline.prompt;
  return (
    <article className={styles.prompt} aria-label={title}>
      <header className={styles.header}>
        <strong>{title}</strong>
        {row.principal !== null && !isNested && (
          <span className={styles.faint}>
            <Text text={row.principal} />
          </span>
        )}
        <EventTime seq={row.seq} at={row.at} what={title} onSelect={onSelect} />
      </header>
      {row.data["is_deleted"] === true ? (
        <p className={styles.faint}>{messages.timeline.deleted}</p>
      ) : (
        <div className={styles.words}>
          <Text text={row.text} lines {...(isLong && !isWhole ? { most: LONG_PROMPT } : {})} />
        </div>
      )}
      {isLong && !isWhole && (
        <button type="button" className={styles.link} onClick={() => setIsWhole(true)}>
          {messages.values.showAll(row.text.split("\n").length, "lines")}
        </button>
      )}
    </article>
  );
}

function ModelLines({ row, onSelect }: { row: ModelRow; onSelect: RowViewProps["onSelect"] }) {
  const isAnswer = row.answerSeq !== null;
  const title = isAnswer ? messages.timeline.answer : messages.timeline.model;
  const seq = row.seq ?? row.answerSeq;
  const failed = messages.timeline.failedStatus;
  return (
    <article className={styles.model} aria-label={title} aria-busy={row.isLive}>
      <header className={styles.header}>
        <strong>{title}</strong>
        {row.isLive && <Badge tone="accent">{messages.timeline.writing}</Badge>}
        {row.status !== "completed" && (
          <Badge tone="bad">
            {row.status in failed
              ? failed[row.status as keyof typeof failed]
              : showable(row.status)}
          </Badge>
        )}
        {seq !== null && <EventTime seq={seq} at={row.at} what={title} onSelect={onSelect} />}
      </header>
      {row.reasoning.length > 0 && (
        <details className={styles.reasoning}>
          <summary>{messages.timeline.reasoning}</summary>
          {row.reasoning.map((text, index) => (
            <div key={index} className={styles.words}>
              <Text text={text} lines />
            </div>
          ))}
        </details>
      )}
      {row.isPartial && <p className={styles.faint}>{messages.timeline.missed}</p>}
      {row.text !== "" && <Words row={row} />}
    </article>
  );
}

/** The text: as it comes while it is written, as Markdown when it is done. */
function Words({ row }: { row: ModelRow }) {
  if (row.isLive) {
    return (
      <div className={styles.words} data-live="">
        <Text text={row.text} lines />
      </div>
    );
  }
  const sources = row.sources as unknown as Source[];
  return <Markdown text={row.text} sources={sources} anchor={row.key} />;
}

function Calls({
  row,
  sessionId,
  selectedCall,
  onSelect,
  actions,
}: {
  row: CallsRow;
  sessionId: string;
  selectedCall: string | null;
  onSelect: RowViewProps["onSelect"];
  actions: TranscriptActions;
}) {
  const isWithin = row.key.startsWith("within:");
  const label = isWithin
    ? messages.timeline.within
    : row.calls.length > 1
      ? messages.timeline.parallel(row.calls.length)
      : undefined;
  return (
    <div
      className={row.calls.length > 1 ? styles.together : undefined}
      {...(label === undefined ? {} : { role: "group", "aria-label": label })}
    >
      {row.calls.map((call) => (
        <CallCard
          key={call.callId}
          call={call}
          sessionId={sessionId}
          isSelected={call.callId === selectedCall}
          onSelect={onSelect}
          actions={actions}
        />
      ))}
    </div>
  );
}
