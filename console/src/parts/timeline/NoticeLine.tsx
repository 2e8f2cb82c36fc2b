import { messages } from "@/messages";
import { asFacts, factsIn, listIn, numberIn, textIn, type Facts } from "@/parts/timeline/envelope";
import { EventTime } from "@/parts/timeline/EventTime";
import type { NoticeRow } from "@/parts/timeline/rows";
import styles from "@/parts/timeline/RowView.module.css";
import { Text } from "@/parts/untrusted";

const LOUD = new Set(["call.unrecorded", "container.expired", "turn.ended", "model.retried"]);

/** An event that is no part of the conversation, in one line. */
export function NoticeLine({
  row,
  onSelect,
}: {
  row: NoticeRow;
  onSelect: ((seq: number) => void) | undefined;
}) {
  const { event } = row;
  const words = wordsOf(event.kind);
  const detail = event.data["is_deleted"] === true ? "" : detailOf(event.data);
  return (
    <div className={styles.notice} data-loud={LOUD.has(event.kind)}>
      <span>
        {words === null ? <Text text={event.kind} /> : words}
        {detail !== "" && (
          <span className={styles.faint}>
            {" "}
            <Text text={detail} most={300} />
          </span>
        )}
      </span>
      {event.is_kept && (
        <EventTime seq={row.seq} at={row.at} what={words ?? event.kind} onSelect={onSelect} />
      )}
    </div>
  );
}

/** What a kind of event means; null for one that this page does not know. */
export function wordsOf(kind: string): string | null {
  const words: Record<string, string> = messages.timeline.kinds;
  return words[kind] ?? null;
}

/** The part of an event that says which thing it is about. */
export function detailOf(data: Facts): string {
  const parts = [
    textIn(data, "outcome"),
    textIn(factsIn(data, "tool"), "name") ?? textIn(data, "tool") ?? textIn(data, "name"),
    textIn(data, "change"),
    textIn(factsIn(data, "actor"), "name") ?? textIn(data, "principal"),
    attempt(data),
    textIn(data, "reason") ?? textIn(data, "problem") ?? textIn(data, "method"),
    ...toolChanges(data),
  ];
  return parts.filter((part) => part !== null && part !== "").join(" · ");
}

function attempt(data: Facts): string | null {
  const number = numberIn(data, "attempt");
  return number === null ? null : messages.timeline.attempt(number);
}

function toolChanges(data: Facts): (string | null)[] {
  const gone = listIn(data, "gone").map((tool) => textIn(asFacts(tool), "name"));
  const changed = listIn(data, "changed").map((each) =>
    textIn(factsIn(asFacts(each), "new"), "name"),
  );
  return [...gone, ...changed];
}
