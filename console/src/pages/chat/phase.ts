/** What is needed of an event to know how it stands with the prompt of a session. */
export interface PhaseEvent {
  seq: number;
  kind: string;
  data: Record<string, unknown>;
}

/** What is needed of a session as the server described it. */
export interface PhaseFacts {
  last_seq: number;
  is_busy: boolean;
  has_open_prompt: boolean;
}

/** How it stands with the last prompt of a session. */
export type Phase =
  | { name: "idle" }
  | { name: "running" }
  | { name: "waiting"; isHeld: boolean }
  | { name: "cut_off" }
  | { name: "failed"; error: string | null }
  | { name: "cancelled"; by: string | null };

/** What one prompt took. */
export interface TurnCost {
  requests: number;
  inputTokens: number;
  outputTokens: number;
  /** In dollars; null when nothing has a known price. */
  cost: number | null;
  /** Whether something of it has no known price. */
  isPartial: boolean;
}

const SUMMARY_PROMPT = "toolcrib:summary";

/** The last prompt that a person sent: those of tools, and summaries, are not. */
export function lastTurn(events: readonly PhaseEvent[]): number | null {
  for (let index = events.length - 1; index >= 0; index -= 1) {
    const event = events[index];
    if (event !== undefined && isPromptOfPerson(event)) return numberIn(event.data, "turn");
  }
  return null;
}

function isPromptOfPerson(event: PhaseEvent): boolean {
  return (
    event.kind === "prompt.started" &&
    (event.data["parent_call_id"] ?? null) === null &&
    event.data["prompt_name"] !== SUMMARY_PROMPT
  );
}

/**
 * How it stands with the last prompt. Events say most of it; whether somebody works on a prompt
 * that was begun before the page looked, the `facts` of that moment say.
 */
export function phaseOf(events: readonly PhaseEvent[], facts: PhaseFacts | null): Phase {
  const turn = lastTurn(events);
  if (turn === null) return { name: facts?.is_busy === true ? "running" : "idle" };
  const last = events.findLast((event) => isStep(event, turn));
  if (last === undefined) return { name: "idle" };
  switch (last.kind) {
    case "prompt.answered":
      return { name: "idle" };
    case "prompt.stopped":
      return stoppedPhase(last.data);
  }
  const isHere = facts === null || last.seq > facts.last_seq || facts.is_busy;
  if (!isHere && !facts.has_open_prompt) return { name: "idle" };
  if (openApprovals(events, turn).length > 0) return { name: "waiting", isHeld: isHere };
  if (isHere) return { name: "running" };
  return wasDecided(events, turn) ? { name: "waiting", isHeld: false } : { name: "cut_off" };
}

function isStep(event: PhaseEvent, turn: number): boolean {
  const kinds = ["prompt.started", "prompt.resumed", "prompt.answered", "prompt.stopped"];
  return kinds.includes(event.kind) && numberIn(event.data, "turn") === turn;
}

function stoppedPhase(data: Record<string, unknown>): Phase {
  if (data["outcome"] === "cancelled") return { name: "cancelled", by: textIn(data, "principal") };
  return { name: "failed", error: textIn(data, "error") };
}

/** The requests for approval of a turn that nobody has decided, by id, in order. */
export function openApprovals(events: readonly PhaseEvent[], turn: number): string[] {
  const open = new Map<string, string>();
  for (const event of events) {
    switch (event.kind) {
      case "approval.requested": {
        const request = objectIn(event.data, "request");
        const caller = objectIn(request, "caller");
        const isOfTurn = (numberIn(request, "turn") ?? turn) === turn;
        const id = textIn(request, "approval_id");
        if (id !== null && isOfTurn && caller["is_model"] === true) {
          open.set(id, textIn(request, "call_id") ?? "");
        }
        break;
      }
      case "approval.decided":
        open.delete(textIn(objectIn(event.data, "decided"), "approval_id") ?? "");
        break;
      case "approval.superseded":
        open.delete(textIn(event.data, "approval_id") ?? "");
        break;
      case "tool.invoked":
        for (const [id, callId] of open) {
          if (callId !== "" && callId === event.data["call_id"]) open.delete(id);
        }
        break;
    }
  }
  return [...open.keys()];
}

/** Whether the last that happened in a turn is that a call was decided: nothing ran since then. */
function wasDecided(events: readonly PhaseEvent[], turn: number): boolean {
  const kinds = ["approval.decided", "tool.invoked", "call.started", "model.responded"];
  const last = events.findLast((event) => kinds.includes(event.kind));
  const since = events.findLast(
    (event) => event.kind === "prompt.started" && numberIn(event.data, "turn") === turn,
  );
  return last?.kind === "approval.decided" && since !== undefined && last.seq > since.seq;
}

/** What the requests of a turn took together; null before the first was answered. */
export function costOf(events: readonly PhaseEvent[], turn: number): TurnCost | null {
  let sum: TurnCost | null = null;
  for (const event of events) {
    if (event.kind !== "model.responded" || numberIn(event.data, "turn") !== turn) continue;
    const usage = objectIn(event.data, "usage");
    const price = priceOf(event.data["cost"]);
    const before: TurnCost = sum ?? {
      requests: 0,
      inputTokens: 0,
      outputTokens: 0,
      cost: null,
      isPartial: false,
    };
    sum = {
      requests: before.requests + 1,
      inputTokens: before.inputTokens + (numberIn(usage, "input_tokens") ?? 0),
      outputTokens: before.outputTokens + (numberIn(usage, "output_tokens") ?? 0),
      cost: price.dollars === null ? before.cost : (before.cost ?? 0) + price.dollars,
      isPartial: before.isPartial || price.isPartial,
    };
  }
  return sum;
}

/** What one request cost, as far as its parts have a price. */
function priceOf(cost: unknown): { dollars: number | null; isPartial: boolean } {
  const parts =
    isObject(cost) && Array.isArray(cost["parts"]) ? cost["parts"].filter(isObject) : [];
  const nanos = parts.map((part) => numberIn(part, "nanos"));
  const known = nanos.filter((each) => each !== null);
  return {
    dollars: known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0) / 1e9,
    isPartial: nanos.length === 0 || known.length < nanos.length,
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function numberIn(data: Record<string, unknown>, name: string): number | null {
  const value = data[name];
  return typeof value === "number" ? value : null;
}

function textIn(data: Record<string, unknown>, name: string): string | null {
  const value = data[name];
  return typeof value === "string" ? value : null;
}

function objectIn(data: Record<string, unknown>, name: string): Record<string, unknown> {
  const value = data[name];
  return isObject(value) ? value : {};
}
