import { messages } from "@/messages";
import { duration, fullTime } from "@/parts/format";

import { factsIn, numberIn, type CallFacts } from "./call";
import styles from "./detail.module.css";
import { FactList } from "./FactList";

const words = messages.detail;

/** When a call was asked for, decided, started and ended, and how long it waited and ran. */
export function Timing({ call }: { call: CallFacts }) {
  const decidedAt = numberIn(factsIn(call.decided?.data, "decided"), "at");
  const waited =
    numberIn(call.ended?.data, "waited_seconds") ||
    (decidedAt !== null && call.requested !== null ? decidedAt - call.requested.at : null);
  const ran = numberIn(call.ended?.data, "duration_seconds");
  const time = (at: number | null | undefined) =>
    at === null || at === undefined ? null : fullTime(at);
  return (
    <div className={styles.stack}>
      <FactList
        facts={[
          [words.waited, waited ? duration(waited) : null],
          [words.ran, ran === null ? null : duration(ran)],
          [words.requestedAt, time(call.requested?.at)],
          [words.decidedAt, time(decidedAt)],
          [words.startedAt, time(call.started?.at)],
          [words.endedAt, call.ended === null ? words.notYet : time(call.ended.at)],
        ]}
      />
    </div>
  );
}
