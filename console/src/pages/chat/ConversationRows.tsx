import { ArrowDown } from "lucide-react";
import { memo, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";

import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import type { SessionView } from "@/pages/chat/session_stream";
import { Button } from "@/parts/Button";
import { CallCard } from "@/parts/timeline/CallCard";
import type { ModelRow, Row } from "@/parts/timeline/rows";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import { Markdown, Text, type Source } from "@/parts/untrusted";

const NEAR = 80;
/** What scrolls takes the focus: keys must reach what a mouse does. */
const SCROLLS = { tabIndex: 0 };

/** What was said and done, newest last. It follows the end unless somebody has scrolled up. */
export function ConversationRows({
  sessionId,
  session,
  actions,
  children,
}: {
  sessionId: string;
  session: SessionView;
  actions: TranscriptActions;
  children: ReactNode;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [isAtEnd, setIsAtEnd] = useState(true);
  const toEnd = () => box.current?.scrollTo({ top: box.current.scrollHeight });
  useLayoutEffect(() => {
    if (isAtEnd) toEnd();
  });
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = () => {
      const left = element.scrollHeight - element.scrollTop - element.clientHeight;
      setIsAtEnd(left < NEAR);
    };
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, []);
  return (
    <div className={styles.scroller}>
      <div
        className={styles.rows}
        ref={box}
        role="log"
        aria-label={messages.chat.conversation}
        {...SCROLLS}
      >
        {session.rows.map((row) => (
          <ConversationRow key={row.key} {...{ row, sessionId, actions }} />
        ))}
        {children}
      </div>
      {!isAtEnd && (
        <Button size="small" className={styles.jump} onClick={toEnd}>
          <ArrowDown aria-hidden size={14} />
          {messages.chat.jumpToEnd}
        </Button>
      )}
    </div>
  );
}

const ConversationRow = memo(function ConversationRow({
  row,
  sessionId,
  actions,
}: {
  row: Row;
  sessionId: string;
  actions: TranscriptActions;
}) {
  switch (row.kind) {
    case "prompt":
      return row.parentCallId === null ? (
        <div className={styles.prompt}>
          <Text text={row.text} lines />
        </div>
      ) : null;
    case "model":
      return row.depth === 0 ? <ModelWords row={row} /> : null;
    case "calls":
      return (
        <div className={styles.calls}>
          {row.calls.map((call) => (
            <CallCard
              key={call.callId}
              isSelected={false}
              onSelect={undefined}
              {...{ call, sessionId, actions }}
            />
          ))}
        </div>
      );
    case "notice":
      return null;
  }
});

function ModelWords({ row }: { row: ModelRow }) {
  const reasoning = row.reasoning.filter((text) => text !== "");
  return (
    <div className={styles.model} data-live={row.isLive || undefined}>
      {reasoning.length > 0 && (
        <details className={styles.reasoning}>
          <summary>{messages.chat.reasoning}</summary>
          <Markdown text={reasoning.join("\n\n")} />
        </details>
      )}
      {row.text !== "" && (
        <Markdown text={row.text} sources={row.sources as unknown as Source[]} anchor={row.key} />
      )}
    </div>
  );
}
