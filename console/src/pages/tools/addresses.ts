const ORDERS = ["name", "source", "calls", "failures", "p50", "p95", "last_used", "cost"] as const;
export type Order = (typeof ORDERS)[number];

const PLACES = ["local", "sandbox", "client", "provider"] as const;
export type Place = (typeof PLACES)[number];
const RANGES = ["1d", "7d", "30d", "all"] as const;
export type Range = (typeof RANGES)[number];

/** What the address of the list says: filters, order, and the time of the statistics. */
export interface ToolsSearch {
  search?: string;
  source?: string;
  place?: Place;
  withheld?: boolean;
  order?: Order;
  descending?: boolean;
  range?: Range;
}

/** Read what an address says; what is not understood is left out. */
export function readToolsSearch(search: Record<string, unknown>): ToolsSearch {
  return clean({
    search: text(search["search"]),
    source: text(search["source"]),
    place: one(PLACES, search["place"]),
    withheld: typeof search["withheld"] === "boolean" ? search["withheld"] : undefined,
    order: one(ORDERS, search["order"]),
    descending: search["descending"] === true ? true : undefined,
    range: one(RANGES, search["range"]),
  });
}

function text(value: unknown): string | undefined {
  // The router reads an address as JSON: a search for 12 comes as a number.
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function one<T extends string>(choices: readonly T[], value: unknown): T | undefined {
  return choices.find((choice) => choice === value);
}

/** The same without what is not set, so that it does not show in the address. */
export function clean(search: ToolsSearch): ToolsSearch {
  return Object.fromEntries(
    Object.entries(search).filter(([, value]) => value !== undefined && value !== ""),
  );
}

export const DEFAULT_RANGE: Range = "7d";

/** The time from which calls are counted; undefined is all time. */
export function sinceOf(range: Range | undefined): string | undefined {
  const chosen = range ?? DEFAULT_RANGE;
  return chosen === "all" ? undefined : chosen;
}

/** What a click on the head of a column asks for: large numbers first, names from A on. */
export function sortedBy(search: ToolsSearch, order: Order): ToolsSearch {
  const isText = order === "name" || order === "source";
  const isSame = (search.order ?? "name") === order;
  const descending = isSame ? !(search.descending ?? false) : !isText;
  return clean({ ...search, order, descending: descending || undefined });
}

/** What the address of one tool says: its source where names collide, and a call to take up. */
export interface ToolSearch {
  source?: string;
  range?: Range;
  /** A call that waits, in a session of one's own. */
  session?: string;
  call?: string;
}

/** Read what the address of a tool says. */
export function readToolSearch(search: Record<string, unknown>): ToolSearch {
  return {
    source: text(search["source"]),
    range: one(RANGES, search["range"]),
    session: text(search["session"]),
    call: text(search["call"]),
  };
}
