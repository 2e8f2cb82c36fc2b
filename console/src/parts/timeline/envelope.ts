/** An event of a session, as `events.list` and the stream of events have it. */
export interface Envelope {
  session_id: string;
  /** Its number in the ledger; of a passing event, that of the last recorded one before it. */
  seq: number;
  kind: string;
  /** Seconds since 1970. */
  at: number;
  data: Facts;
  /** Whether the ledger has it; a passing event is shown and forgotten. */
  is_kept: boolean;
}

/** The payload of an event. What it holds depends on the kind, and on the version that wrote it. */
export type Facts = Record<string, unknown>;

/** A record in some JSON; empty when there is none. */
export function factsIn(facts: Facts, name: string): Facts {
  return asFacts(facts[name]);
}

export function asFacts(value: unknown): Facts {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Facts)
    : {};
}

export function textIn(facts: Facts, name: string): string | null {
  const value = facts[name];
  return typeof value === "string" ? value : null;
}

export function numberIn(facts: Facts, name: string): number | null {
  const value = facts[name];
  return typeof value === "number" ? value : null;
}

export function listIn(facts: Facts, name: string): unknown[] {
  const value = facts[name];
  return Array.isArray(value) ? value : [];
}

/** The JSON in a text; the text itself while it is no JSON, such as half-written arguments. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
