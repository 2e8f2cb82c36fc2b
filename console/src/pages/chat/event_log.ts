/** One event of a session as the server sends it. */
export interface Envelope {
  session_id: string;
  /** Its number in the ledger; of a passing event, that of the last recorded one before it. */
  seq: number;
  kind: string;
  at: number;
  data: Record<string, unknown>;
  is_kept: boolean;
}

const DELTAS = ["model.text_delta", "model.reasoning_delta", "model.arguments_delta"];
const PASSED = [...DELTAS, "model.partial_reply", "model.hosted_progress", "model.asked"];

/**
 * The events with one more. Pieces of a reply are let go when the whole is recorded, and when a
 * partial reply takes their place after a connection was lost.
 */
export function withEvent(events: readonly Envelope[], event: Envelope): Envelope[] {
  switch (event.kind) {
    case "model.responded":
      return [...events.filter((each) => !isPiece(each, event, PASSED)), event];
    case "model.partial_reply":
      return [
        ...events.filter((each) => !isPiece(each, event, [...DELTAS, "model.partial_reply"])),
        event,
      ];
    default:
      return [...events, event];
  }
}

/** All of a batch, in order. */
export function withEvents(events: readonly Envelope[], batch: readonly Envelope[]): Envelope[] {
  const isPlain = batch.every((event) => event.kind !== "model.responded" && !isPartial(event));
  if (isPlain) return [...events, ...batch];
  return batch.reduce<Envelope[]>((all, event) => withEvent(all, event), [...events]);
}

function isPartial(event: Envelope): boolean {
  return event.kind === "model.partial_reply";
}

function isPiece(each: Envelope, whole: Envelope, kinds: readonly string[]): boolean {
  return (
    !each.is_kept &&
    kinds.includes(each.kind) &&
    each.data["turn"] === whole.data["turn"] &&
    each.data["step"] === whole.data["step"]
  );
}

/** The envelope in the data of a server-sent event; null for what is none. */
export function readEnvelope(data: string): Envelope | null {
  try {
    const value: unknown = JSON.parse(data);
    return isEnvelope(value) ? value : null;
  } catch {
    return null;
  }
}

function isEnvelope(value: unknown): value is Envelope {
  return (
    typeof value === "object" &&
    value !== null &&
    "seq" in value &&
    typeof value.seq === "number" &&
    "kind" in value &&
    typeof value.kind === "string" &&
    "data" in value &&
    typeof value.data === "object" &&
    value.data !== null
  );
}
