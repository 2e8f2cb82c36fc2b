import { messages } from "@/messages";
import { clockTime, fullTime } from "@/parts/format";
import styles from "@/parts/timeline/RowView.module.css";

/** When an event was, and the button that shows its details. */
export function EventTime({
  seq,
  at,
  what,
  onSelect,
}: {
  seq: number;
  at: number;
  what: string;
  onSelect: ((seq: number) => void) | undefined;
}) {
  const time = (
    <time dateTime={new Date(at * 1000).toISOString()} title={fullTime(at)}>
      {clockTime(at)}
    </time>
  );
  if (onSelect === undefined) return <span className={styles.time}>{time}</span>;
  return (
    <button
      type="button"
      className={styles.time}
      aria-label={`${messages.timeline.open(what)}, ${clockTime(at)}`}
      onClick={() => onSelect(seq)}
    >
      {time}
    </button>
  );
}
