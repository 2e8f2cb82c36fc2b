import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, type ReactNode } from "react";

import { ruleName } from "@/parts/rule_name";
import { messages } from "@/messages";
import type { CallRow } from "@/pages/activity/calls";
import styles from "@/pages/activity/CallTable.module.css";
import { Badge, type Tone } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { duration, fullTime, money } from "@/parts/format";
import { Time } from "@/parts/Time";
import { showable, Text } from "@/parts/untrusted";

const words = messages.activity;

const TONES: Record<CallRow["status"], Tone> = {
  completed: "good",
  failed: "bad",
  denied: "warn",
  waiting: "waiting",
  approved: "waiting",
  running: "accent",
  in_doubt: "bad",
};

interface CallTableProps {
  rows: CallRow[];
  hasMore: boolean;
  isLoading: boolean;
  onMore: () => void;
}

/** The calls. Only the rows in sight are in the document, however many are loaded. */
export function CallTable({ rows, hasMore, isLoading, onMore }: CallTableProps) {
  const frame = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => 44,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <>
      <div ref={frame} className={styles.frame} role="region" aria-label={words.table}>
        <table className={styles.table} aria-rowcount={hasMore ? -1 : rows.length + 1}>
          <caption className="sr-only">{words.table}</caption>
          <Head />
          <tbody>
            {above > 0 && <Gap height={above} />}
            {items.map((item) => {
              const row = rows[item.index];
              return (
                row && (
                  <CallLine
                    key={item.key}
                    row={row}
                    index={item.index}
                    measure={virtual.measureElement}
                  />
                )
              );
            })}
            {below > 0 && <Gap height={below} />}
          </tbody>
        </table>
      </div>
      <footer className={styles.footer} aria-live="polite">
        <span>{words.loaded(rows.length, !hasMore)}</span>
        {hasMore && (
          <Button onClick={onMore} disabled={isLoading}>
            {isLoading ? messages.parts.loading : words.more}
          </Button>
        )}
      </footer>
    </>
  );
}

const LABELS = [
  words.when,
  words.who,
  words.what,
  words.ended,
  words.decided,
  words.took,
  words.waited,
  words.cost,
  words.open,
];

function Head() {
  return (
    <thead>
      <tr>
        {LABELS.map((label) => (
          <th key={label} scope="col">
            {label}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Gap({ height }: { height: number }) {
  return (
    <tr aria-hidden className={styles.gap}>
      <td colSpan={LABELS.length} style={{ height }} />
    </tr>
  );
}

function CallLine({
  row,
  index,
  measure,
}: {
  row: CallRow;
  index: number;
  measure: (element: HTMLTableRowElement | null) => void;
}) {
  const name = row.tool ?? row.model ?? messages.parts.unknown;
  const cells: ReactNode[] = [
    <Time key="when" at={row.at} />,
    <Text key="who" text={row.principal ?? words.nobody} most={60} />,
    <span key="what" className={styles.what}>
      <Text text={name} most={80} />
      {row.source !== null && <small>{<Text text={row.source} most={40} />}</small>}
    </span>,
    <Badge key="ended" tone={TONES[row.status]} {...(row.failure ? { title: row.failure } : {})}>
      {words.statuses[row.status]}
    </Badge>,
    row.decision === null ? null : <Decided key="decided" row={row} decision={row.decision} />,
    row.status === "waiting" ? null : duration(row.duration_seconds),
    row.waited_seconds > 0 ? duration(row.waited_seconds) : null,
    row.cost === null ? null : money(row.cost),
    row.last_seq === 0 ? null : (
      <Link
        key="open"
        to="/sessions/$sessionId"
        params={{ sessionId: row.session_id }}
        search={{ event: row.last_seq }}
        aria-label={words.openWords(showable(name), fullTime(row.at))}
      >
        {words.open}
      </Link>
    ),
  ];
  return (
    <tr ref={measure} data-index={index} aria-rowindex={index + 2}>
      {cells.map((cell, column) => (
        <td
          key={LABELS[column]}
          data-label={LABELS[column]}
          {...(cell === null ? { "data-empty": "" } : {})}
        >
          {cell ?? "–"}
        </td>
      ))}
    </tr>
  );
}

function Decided({ row, decision }: { row: CallRow; decision: NonNullable<CallRow["decision"]> }) {
  const name = row.decided_by === "rule" && row.approver ? ruleName(row.approver) : row.approver;
  const who = name ?? row.decided_by ?? messages.parts.unknown;
  return <Text text={words.by(words.decisions[decision], who)} most={80} />;
}
