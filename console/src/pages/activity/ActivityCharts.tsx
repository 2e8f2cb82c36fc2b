import { useId } from "react";
import { Bar, BarChart, CartesianGrid, Tooltip, XAxis, YAxis, ResponsiveContainer } from "recharts";

import { messages } from "@/messages";
import styles from "@/pages/activity/Activity.module.css";
import type { Bucket } from "@/pages/activity/filters";
import { pointName, tickName, type Point } from "@/pages/activity/series";
import { duration, money } from "@/parts/format";

const words = messages.activity;

interface Bars {
  field: "succeeded" | "failures" | "requests" | "waited" | "cost";
  label: string;
  look: "plain" | "hatched" | "dotted" | "waiting";
}

const count = (value: number): string => value.toLocaleString("en");

/** The charts of the page. Bars differ in pattern, not in colour alone. */
export function ActivityCharts({
  points,
  bucket,
  showsModels,
}: {
  points: Point[];
  bucket: Bucket;
  showsModels: boolean;
}) {
  const calls: Bars[] = [
    { field: "failures", label: words.failures, look: "hatched" },
    { field: "succeeded", label: words.succeeded, look: "plain" },
  ];
  const requests: Bars[] = [{ field: "requests", label: words.requests, look: "plain" }];
  return (
    <div className={styles.charts}>
      <Chart
        name={showsModels ? words.chartRequests : words.chartCalls}
        bars={showsModels ? requests : calls}
        format={count}
        points={points}
        bucket={bucket}
      />
      <Chart
        name={words.chartWaited}
        bars={[{ field: "waited", label: words.waited, look: "waiting" }]}
        format={duration}
        points={points}
        bucket={bucket}
      />
      <Chart
        name={words.chartCost}
        bars={[{ field: "cost", label: words.cost, look: "dotted" }]}
        format={money}
        points={points}
        bucket={bucket}
      />
    </div>
  );
}

function Chart({
  name,
  bars,
  format,
  points,
  bucket,
}: {
  name: string;
  bars: Bars[];
  format: (value: number) => string;
  points: Point[];
  bucket: Bucket;
}) {
  const id = useId().replaceAll(":", "");
  const heights = points.map((point) => bars.reduce((sum, bar) => sum + point[bar.field], 0));
  const total = heights.reduce((sum, height) => sum + height, 0);
  const most = Math.max(0, ...heights);
  const label = words.chartWords(name, format(total), points.length, format(most));
  return (
    <figure className={styles.chart}>
      <figcaption>
        <h2>{name}</h2>
        {bars.length > 1 && <Legend bars={bars} id={id} />}
      </figcaption>
      <div role="img" aria-label={label} className={styles.plot}>
        <ResponsiveContainer width="100%" height="100%">
          <BarChart
            data={points}
            accessibilityLayer={false}
            margin={{ top: 4, right: 4, bottom: 0, left: 0 }}
          >
            <defs>
              <Patterns id={id} />
            </defs>
            <CartesianGrid vertical={false} stroke="var(--line)" />
            <XAxis
              dataKey="at"
              tickFormatter={(at: number) => tickName(at, bucket)}
              tick={{ fill: "var(--ink-soft)", fontSize: 12 }}
              stroke="var(--line-strong)"
              minTickGap={28}
            />
            <YAxis
              width={64}
              allowDecimals={bars[0]?.field === "waited" || bars[0]?.field === "cost"}
              tickFormatter={format}
              tick={{ fill: "var(--ink-soft)", fontSize: 12 }}
              stroke="var(--line-strong)"
            />
            <Tooltip
              cursor={{ fill: "var(--accent-soft)" }}
              isAnimationActive={false}
              content={({ active, payload, label: at }) =>
                active ? (
                  <div className={styles.tip}>
                    <strong>{pointName(Number(at), bucket)}</strong>
                    {payload.map((entry) => (
                      <span key={String(entry.name)}>
                        {entry.name}: {format(Number(entry.value))}
                      </span>
                    ))}
                  </div>
                ) : null
              }
            />
            {bars.map((bar) => (
              <Bar
                key={bar.field}
                dataKey={bar.field}
                name={bar.label}
                stackId="all"
                fill={`url(#${id}-${bar.look})`}
                stroke={STROKES[bar.look]}
                isAnimationActive={false}
              />
            ))}
          </BarChart>
        </ResponsiveContainer>
      </div>
    </figure>
  );
}

const STROKES: Record<Bars["look"], string> = {
  plain: "var(--accent)",
  hatched: "var(--bad)",
  dotted: "var(--good)",
  waiting: "var(--waiting)",
};

function Patterns({ id }: { id: string }) {
  return (
    <>
      <pattern id={`${id}-plain`} width="6" height="6" patternUnits="userSpaceOnUse">
        <rect width="6" height="6" fill="var(--accent)" />
      </pattern>
      <pattern
        id={`${id}-hatched`}
        width="6"
        height="6"
        patternUnits="userSpaceOnUse"
        patternTransform="rotate(45)"
      >
        <rect width="6" height="6" fill="var(--bad-soft)" />
        <rect width="3" height="6" fill="var(--bad)" />
      </pattern>
      <pattern id={`${id}-dotted`} width="6" height="6" patternUnits="userSpaceOnUse">
        <rect width="6" height="6" fill="var(--good-soft)" />
        <circle cx="3" cy="3" r="1.7" fill="var(--good)" />
      </pattern>
      <pattern id={`${id}-waiting`} width="6" height="6" patternUnits="userSpaceOnUse">
        <rect width="6" height="6" fill="var(--waiting-soft)" />
        <rect width="6" height="3" fill="var(--waiting)" />
      </pattern>
    </>
  );
}

function Legend({ bars, id }: { bars: Bars[]; id: string }) {
  return (
    <ul className={styles.legend}>
      {bars.map((bar) => (
        <li key={bar.field}>
          <svg width="14" height="14" aria-hidden>
            <rect
              width="13"
              height="13"
              x="0.5"
              y="0.5"
              fill={`url(#${id}-${bar.look})`}
              stroke={STROKES[bar.look]}
            />
          </svg>
          {bar.label}
        </li>
      ))}
    </ul>
  );
}
