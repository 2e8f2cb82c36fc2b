import { STATUS_FILTERS, type StatusFilter } from "@/parts/timeline/filter";

/** The filters of the list of sessions, as they stand in the address. */
export interface SessionsSearch {
  text?: string;
  owner?: string;
  state?: "open" | "closed";
  waiting?: true;
  failed?: true;
  tool?: string;
  since?: Since;
}

/** What of one session is shown, as it stands in the address. */
export interface SessionSearch {
  event?: number;
  tool?: string;
  status?: StatusFilter;
  place?: string;
  all?: true;
  find?: string;
}

export const SINCE = ["1h", "24h", "7d", "30d"] as const;
export type Since = (typeof SINCE)[number];

type Raw = Record<string, unknown>;

/** Read the address of the list. What it does not know, it leaves out. */
export function readSessionsSearch(raw: Raw): SessionsSearch {
  return {
    ...words(raw, "text"),
    ...words(raw, "owner"),
    ...words(raw, "tool"),
    ...choice(raw, "state", ["open", "closed"] as const),
    ...choice(raw, "since", SINCE),
    ...flag(raw, "waiting"),
    ...flag(raw, "failed"),
  };
}

/** Read the address of a session. */
export function readSessionSearch(raw: Raw): SessionSearch {
  const event = Number(raw["event"]);
  return {
    ...(Number.isSafeInteger(event) && event > 0 ? { event } : {}),
    ...words(raw, "tool"),
    ...words(raw, "place"),
    ...words(raw, "find"),
    ...choice(raw, "status", STATUS_FILTERS),
    ...flag(raw, "all"),
  };
}

function words<Name extends string>(raw: Raw, name: Name): { [key in Name]?: string } {
  const value = raw[name];
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && text.trim() !== ""
    ? ({ [name]: text.slice(0, 200) } as { [key in Name]: string })
    : {};
}

function choice<Name extends string, Value extends string>(
  raw: Raw,
  name: Name,
  choices: readonly Value[],
): { [key in Name]?: Value } {
  const value = choices.find((each) => each === raw[name]);
  return value === undefined ? {} : ({ [name]: value } as { [key in Name]: Value });
}

function flag<Name extends string>(raw: Raw, name: Name): { [key in Name]?: true } {
  const isSet = raw[name] === true || raw[name] === "true";
  return isSet ? ({ [name]: true } as { [key in Name]: true }) : {};
}

/** A search with one filter changed; an empty one is left out. */
export function withFilter<Search extends object, Name extends keyof Search>(
  search: Search,
  name: Name,
  value: Search[Name] | undefined,
): Search {
  const isEmpty = value === undefined || value === "" || value === false;
  const others = Object.entries(search).filter(([each]) => each !== name);
  return Object.fromEntries(isEmpty ? others : [...others, [name, value]]) as Search;
}
