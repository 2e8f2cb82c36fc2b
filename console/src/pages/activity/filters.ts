/** The filters of the activity page. They live in the address, so that a view can be shared. */

export const RANGES = ["1h", "24h", "7d", "30d"] as const;
export type Range = (typeof RANGES)[number];

export const STATUSES = [
  "completed",
  "failed",
  "denied",
  "waiting",
  "approved",
  "running",
  "in_doubt",
] as const;
export type Status = (typeof STATUSES)[number];

export const DECISIONS = ["allowed", "denied", "edited", "answered", "expired"] as const;
export type Decision = (typeof DECISIONS)[number];

export const KINDS = ["tool", "model", "any"] as const;
export type Kind = (typeof KINDS)[number];

export interface ActivitySearch {
  range?: Range;
  /** With `to` in the place of a range: times of ISO 8601. */
  from?: string;
  to?: string;
  principal?: string;
  tool?: string;
  status?: Status;
  decision?: Decision;
  kind?: Kind;
  min_cost?: number;
}

export const DEFAULT_RANGE: Range = "7d";

const SECONDS: Record<Range, number> = {
  "1h": 3_600,
  "24h": 86_400,
  "7d": 604_800,
  "30d": 2_592_000,
};

function oneOf<T extends string>(value: unknown, choices: readonly T[]): T | undefined {
  return choices.find((choice) => choice === value);
}

function text(value: unknown): string | undefined {
  // The router reads a search value that looks like a number as one.
  const written = typeof value === "number" ? String(value) : value;
  return typeof written === "string" && written.trim() !== ""
    ? written.trim().slice(0, 512)
    : undefined;
}

function time(value: unknown): string | undefined {
  return typeof value === "string" && !Number.isNaN(Date.parse(value)) ? value : undefined;
}

/** The filters that an address has; what is not understood is left out. */
export function readSearch(search: Record<string, unknown>): ActivitySearch {
  const cost = search["min_cost"];
  const read: Record<keyof ActivitySearch, unknown> = {
    range: oneOf(search["range"], RANGES),
    from: time(search["from"]),
    to: time(search["to"]),
    principal: text(search["principal"]),
    tool: text(search["tool"]),
    status: oneOf(search["status"], STATUSES),
    decision: oneOf(search["decision"], DECISIONS),
    kind: oneOf(search["kind"], KINDS),
    min_cost: typeof cost === "number" && cost >= 0 ? cost : undefined,
  };
  return withoutEmpty(read) as ActivitySearch;
}

/** The same without the members that say nothing. */
export function withoutEmpty<T extends object>(facts: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(facts).filter(([, value]) => value !== undefined && value !== ""),
  ) as Partial<T>;
}

/** Whether the times are chosen by hand. */
export function isCustom(search: ActivitySearch): boolean {
  return search.from !== undefined || search.to !== undefined;
}

export interface Span {
  since: number;
  until: number;
}

/** The time that the filters are about, in seconds since 1970. */
export function spanOf(search: ActivitySearch, now: number): Span {
  if (!isCustom(search)) {
    return { since: now - SECONDS[search.range ?? DEFAULT_RANGE], until: now };
  }
  const until = search.to === undefined ? now : Date.parse(search.to) / 1000;
  const since =
    search.from === undefined ? until - SECONDS[DEFAULT_RANGE] : Date.parse(search.from) / 1000;
  return { since: Math.min(since, until), until };
}

export type Bucket = "minute" | "hour" | "day";

/** How fine the charts of a time are: some tens of bars, whatever its length. */
export function bucketOf({ since, until }: Span): Bucket {
  const seconds = until - since;
  if (seconds <= 2 * 3_600) return "minute";
  return seconds <= 3 * 86_400 ? "hour" : "day";
}

export interface CallFilters {
  since: string;
  until?: string;
  principal?: string;
  tool?: string;
  status?: string;
  decision?: Decision;
  min_cost?: number;
}

/**
 * The filters as the operations take them. A range is sent as how long ago, so that asking again
 * a moment later asks the same.
 */
export function callFilters(search: ActivitySearch): CallFilters {
  const times = isCustom(search)
    ? {
        since: search.from ?? DEFAULT_RANGE,
        until: search.to,
      }
    : { since: search.range ?? DEFAULT_RANGE, until: undefined };
  return withoutEmpty({
    ...times,
    principal: search.principal,
    tool: search.tool,
    status: search.status,
    decision: search.decision,
    min_cost: search.min_cost,
  }) as CallFilters;
}

/** Whether anything but the time is filtered by. */
export function isFiltered(search: ActivitySearch): boolean {
  return Object.keys(search).some((name) => !["range", "from", "to"].includes(name));
}

/** A time for an input of the type `datetime-local`, in the reader's zone. */
export function localInput(iso: string | undefined): string {
  if (iso === undefined) return "";
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The time that such an input holds. */
export function fromLocalInput(value: string): string | undefined {
  return value === "" ? undefined : new Date(value).toISOString();
}
