import { useMemo } from "react";

import { messages } from "@/messages";
import { duration } from "@/parts/format";
import { showable, Text } from "@/parts/untrusted";

import type { SessionEvent } from "./call";
import styles from "./waterfall.module.css";
import { barsOf, waterfallOf, type PlacedBar } from "./waterfall";

const words = messages.detail;

interface WaterfallProps {
  readonly events: readonly SessionEvent[];
  /** The number of the selected event. */
  readonly selected: number | null;
  readonly onSelect: (seq: number) => void;
  /** The time until which open calls last, in seconds since 1970. */
  readonly now: number;
}

/** When calls and requests to models waited and ran. Each bar selects its event. */
export function Waterfall({ events, selected, onSelect, now }: WaterfallProps) {
  const bars = useMemo(() => barsOf(events, now), [events, now]);
  const waterfall = useMemo(() => waterfallOf(bars, selected), [bars, selected]);
  return (
    <section className={styles.waterfall} aria-label={words.waterfall}>
      <p className={styles.legend}>
        <span>
          <span className={`${styles.sample} ${styles.waiting}`} aria-hidden /> {words.waiting}
        </span>
        <span>
          <span className={`${styles.sample} ${styles.running}`} aria-hidden /> {words.running}
        </span>
        <span>{words.waterfallSpan(duration(waterfall.seconds))}</span>
        {waterfall.bars.length < waterfall.total ? (
          <span>{words.waterfallPart(waterfall.bars.length, waterfall.total)}</span>
        ) : null}
      </p>
      {waterfall.bars.length === 0 ? <p className={styles.legend}>{words.waterfallEmpty}</p> : null}
      <ol className={styles.bars}>
        {waterfall.bars.map((bar) => (
          <li key={bar.key}>
            <BarButton
              bar={bar}
              cuts={waterfall.cuts}
              isSelected={bar.seq === selected}
              onSelect={onSelect}
            />
          </li>
        ))}
      </ol>
    </section>
  );
}

interface BarButtonProps {
  readonly bar: PlacedBar;
  readonly cuts: readonly number[];
  readonly isSelected: boolean;
  readonly onSelect: (seq: number) => void;
}

function BarButton({ bar, cuts, isSelected, onSelect }: BarButtonProps) {
  const hasWaited = bar.spans.some((span) => span.kind === "waiting");
  const hasRun = bar.spans.some((span) => span.kind === "running");
  const times = words.bar(
    hasWaited ? duration(bar.waited) : null,
    hasRun ? duration(bar.ran) : null,
    words.barStates[bar.state],
  );
  return (
    <button
      type="button"
      className={styles.bar}
      aria-current={isSelected ? "true" : undefined}
      title={`${showable(bar.name)}: ${times}`}
      onClick={() => onSelect(bar.seq)}
      data-state={bar.state}
    >
      <span className={styles.name}>
        <Text text={bar.name} most={40} />
      </span>
      <span className="sr-only">{times}</span>
      <span className={styles.track} aria-hidden>
        {cuts.map((cut) => (
          <span key={cut} className={styles.cut} style={{ left: `${cut * 100}%` }} />
        ))}
        {bar.places.map((place, index) => (
          <span
            key={index}
            className={`${styles.span} ${styles[place.kind]}`}
            style={{ left: `${place.start * 100}%`, width: `${place.width * 100}%` }}
            data-span={place.kind}
          />
        ))}
      </span>
      <span className={styles.length} aria-hidden>
        {duration(bar.waited + bar.ran)}
      </span>
    </button>
  );
}
