import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown } from "lucide-react";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { LoadingState } from "@/parts/State";
import { Announcer } from "@/parts/timeline/Announcer";
import { RowView } from "@/parts/timeline/RowView";
import type { ApprovalItem, CallItem, QuestionItem, Row } from "@/parts/timeline/rows";
import styles from "@/parts/timeline/Transcript.module.css";
import type { Feed } from "@/parts/timeline/useSessionFeed";

/** What pages add to a transcript: how to decide, answer and cancel there. */
export interface TranscriptActions {
  decide?: (call: CallItem, approval: ApprovalItem) => ReactNode;
  answer?: (call: CallItem, question: QuestionItem) => ReactNode;
  cancel?: (call: CallItem) => void;
}

export interface TranscriptProps extends TranscriptActions {
  sessionId: string;
  feed: Feed;
  /** The rows that are shown; those of the feed, unless a filter is set. */
  rows?: readonly Row[];
  selected?: number | null;
  onSelect?: (seq: number) => void;
  /** The row that a search stopped at. */
  found?: string | null;
}

const EDGE = 48;
const NEAR_TOP = 12;
const ESTIMATES: Record<Row["kind"], number> = { prompt: 84, model: 96, calls: 132, notice: 44 };

/**
 * A transcript: as tall as its parent, and scrolled within. It stays at the newest row while that
 * is in sight, and keeps its place when older rows are put before.
 */
export function Transcript(props: TranscriptProps) {
  const { feed, sessionId, selected = null, onSelect, found = null } = props;
  const rows = props.rows ?? feed.rows;
  const scroller = useRef<HTMLDivElement>(null);
  const place = useRef<Anchor>({ isAtEnd: true, key: null, delta: 0, firstKey: null });
  const [isAtEnd, setIsAtEnd] = useState(true);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => ESTIMATES[rows[index]?.kind ?? "notice"],
    getItemKey: (index) => rows[index]?.key ?? index,
    overscan: 6,
    scrollPaddingStart: 16,
    scrollPaddingEnd: 64,
  });
  const total = virtual.getTotalSize();

  useLayoutEffect(() => {
    const element = scroller.current;
    const anchor = place.current;
    if (element === null) return;
    const firstKey = rows[0]?.key ?? null;
    const isShifted = anchor.firstKey !== null && anchor.firstKey !== firstKey;
    anchor.firstKey = firstKey;
    if (anchor.isAtEnd) {
      element.scrollTop = element.scrollHeight;
    } else if (isShifted && anchor.key !== null) {
      const index = rows.findIndex((row) => row.key === anchor.key);
      const offset = index < 0 ? undefined : virtual.getOffsetForIndex(index, "start");
      if (offset !== undefined) element.scrollTop = offset[0] + anchor.delta;
    }
  }, [rows, total, virtual]);

  const target = found ?? (selected === null ? null : feed.rowOf(selected));
  const latest = useRef({ rows, virtual });
  useEffect(() => {
    latest.current = { rows, virtual };
  });
  // Only when another event is chosen: new rows must not pull the page back.
  useEffect(() => {
    const index = latest.current.rows.findIndex((row) => row.key === target);
    if (index < 0) return;
    place.current.isAtEnd = false;
    latest.current.virtual.scrollToIndex(index, { align: "auto" });
  }, [target]);

  const onScroll = () => {
    const element = scroller.current;
    if (element === null) return;
    const anchor = place.current;
    const top = element.scrollTop;
    anchor.isAtEnd = element.scrollHeight - top - element.clientHeight < EDGE;
    const item = virtual.getVirtualItemForOffset(top);
    anchor.key = item === undefined ? null : String(item.key);
    anchor.delta = item === undefined ? 0 : top - item.start;
    if (anchor.isAtEnd !== isAtEnd) setIsAtEnd(anchor.isAtEnd);
    if (item !== undefined && item.index < NEAR_TOP && feed.hasOlder) feed.loadOlder();
  };
  const toEnd = () => {
    place.current.isAtEnd = true;
    setIsAtEnd(true);
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  const selectedCall = selected === null ? null : feed.callOf(selected);
  const selectedKey = selected === null ? null : feed.rowOf(selected);
  const { decide, answer, cancel } = props;
  const actions = useMemo<TranscriptActions>(
    () => ({
      ...(decide === undefined ? {} : { decide }),
      ...(answer === undefined ? {} : { answer }),
      ...(cancel === undefined ? {} : { cancel }),
    }),
    [decide, answer, cancel],
  );
  return (
    <div className={styles.frame}>
      <div
        ref={scroller}
        className={styles.scroller}
        role="group"
        tabIndex={0}
        aria-label={messages.session.transcript}
        onScroll={onScroll}
        data-transcript=""
      >
        <Older feed={feed} />
        <ol className={styles.list} style={{ height: total }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            return (
              <li
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                className={styles.item}
                style={{ transform: `translateY(${item.start}px)` }}
                aria-setsize={feed.hasOlder ? -1 : rows.length}
                aria-posinset={item.index + 1}
              >
                <RowView
                  row={row}
                  sessionId={sessionId}
                  isSelected={row.key === selectedKey}
                  isFound={row.key === found}
                  selectedCall={row.key === selectedKey ? selectedCall : null}
                  onSelect={onSelect}
                  actions={actions}
                />
              </li>
            );
          })}
        </ol>
      </div>
      {!isAtEnd && (
        <div className={styles.newest}>
          <Button size="small" onClick={toEnd}>
            <ArrowDown aria-hidden size={14} /> {messages.session.newest}
          </Button>
        </div>
      )}
      <Announcer rows={rows} />
    </div>
  );
}

/** Where the reader is: at the end, or at a row. */
interface Anchor {
  isAtEnd: boolean;
  key: string | null;
  delta: number;
  firstKey: string | null;
}

function Older({ feed }: { feed: Feed }) {
  if (feed.isLoadingOlder) return <LoadingState label={messages.session.older} />;
  return (
    <div className={styles.older}>
      {feed.hasOlder ? (
        <Button size="small" onClick={feed.loadOlder}>
          {messages.session.loadOlder}
        </Button>
      ) : (
        <p>{messages.session.beginning}</p>
      )}
    </div>
  );
}
