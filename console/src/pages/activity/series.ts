import type { Bucket, Span } from "@/pages/activity/filters";

/** The sums of one bucket, as `calls.sums` has them. */
export interface UsageSum {
  key: string | null;
  calls: number;
  failures: number;
  waited_seconds: number;
  requests: number;
  cost: number | null;
  unpriced: number;
}

/** One bar of the charts. */
export interface Point {
  /** Seconds since 1970. */
  at: number;
  succeeded: number;
  failures: number;
  requests: number;
  waited: number;
  cost: number;
}

const STEP: Record<Bucket, number> = { minute: 60, hour: 3_600, day: 86_400 };
const MOST_POINTS = 400;

function keyTime(key: string): number {
  return Date.parse(key) / 1000;
}

/** A bar for every bucket of a time, also for those in which nothing happened. */
export function pointsOf(sums: UsageSum[], span: Span, bucket: Bucket): Point[] {
  const step = STEP[bucket];
  const byTime = new Map<number, UsageSum>();
  for (const sum of sums) if (sum.key !== null) byTime.set(keyTime(sum.key), sum);
  const first = Math.floor(span.since / step) * step;
  const count = Math.floor((span.until - first) / step) + 1;
  // A long time with few days in it: the bars that have something, and none between them.
  const times =
    count <= MOST_POINTS
      ? Array.from({ length: count }, (_, index) => first + index * step)
      : [...byTime.keys()].sort((left, right) => left - right);
  return times.map((at) => pointOf(at, byTime.get(at)));
}

function pointOf(at: number, sum: UsageSum | undefined): Point {
  return {
    at,
    succeeded: (sum?.calls ?? 0) - (sum?.failures ?? 0),
    failures: sum?.failures ?? 0,
    requests: sum?.requests ?? 0,
    waited: sum?.waited_seconds ?? 0,
    cost: sum?.cost ?? 0,
  };
}

export interface Totals {
  calls: number;
  failures: number;
  requests: number;
  waited: number;
  /** null: nothing has a known price. */
  cost: number | null;
  unpriced: number;
}

/** What all buckets come to. */
export function totalsOf(sums: UsageSum[]): Totals {
  const totals: Totals = { calls: 0, failures: 0, requests: 0, waited: 0, cost: null, unpriced: 0 };
  for (const sum of sums) {
    totals.calls += sum.calls;
    totals.failures += sum.failures;
    totals.requests += sum.requests;
    totals.waited += sum.waited_seconds;
    totals.unpriced += sum.unpriced;
    if (sum.cost !== null) totals.cost = (totals.cost ?? 0) + sum.cost;
  }
  return totals;
}

/** The keys with the most calls, at most `count`. */
export function topOf(sums: UsageSum[], count: number): UsageSum[] {
  return sums
    .filter((sum) => sum.key !== null && sum.calls > 0)
    .sort(
      (left, right) => right.calls - left.calls || (left.key ?? "").localeCompare(right.key ?? ""),
    )
    .slice(0, count);
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const both = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

/** The name of a bar. Days are those of UTC; hours and minutes are told in the reader's zone. */
export function pointName(at: number, bucket: Bucket): string {
  const date = new Date(at * 1000);
  if (bucket === "day") return `${day.format(date)} (UTC)`;
  return both.format(date);
}

/** A short name for an axis. */
export function tickName(at: number, bucket: Bucket): string {
  const date = new Date(at * 1000);
  return bucket === "day" ? day.format(date) : clock.format(date);
}
