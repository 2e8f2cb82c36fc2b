/** One call, put together from the events that speak of it. */

import type { JsonValue } from "@/parts/values";
import { isObject, same } from "@/parts/values";

/** An event of a session, as the server sends it. */
export interface SessionEvent {
  readonly seq: number;
  readonly kind: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly is_kept?: boolean;
}

/** The arguments of a call at one point of its way. */
export interface ArgumentsVersion {
  readonly kind: "proposed" | "shown" | "edited" | "executed";
  readonly value: JsonValue;
  /** Who changed them; for `edited`. */
  readonly by: string | null;
}

export interface CallFacts {
  readonly callId: string;
  readonly tool: string | null;
  readonly schema: object | null;
  readonly versions: readonly ArgumentsVersion[];
  readonly requested: SessionEvent | null;
  readonly decided: SessionEvent | null;
  readonly started: SessionEvent | null;
  readonly ended: SessionEvent | null;
  readonly events: readonly SessionEvent[];
}

/** The call that an event is about; null when it is about none. */
export function callIdOf(event: SessionEvent): string | null {
  return textIn(event.data, "call_id");
}

/** The call of an id, from all events that are known. */
export function callOf(callId: string, events: readonly SessionEvent[]): CallFacts {
  const own = events.filter((event) => callIdOf(event) === callId);
  const last = (kind: string) => own.findLast((event) => event.kind === kind) ?? null;
  const requested = last("approval.requested");
  const request = factsIn(requested?.data, "request");
  const ended = last("tool.invoked");
  const started = last("call.started");
  const tool =
    textIn(ended?.data, "name") ??
    textIn(factsIn(request, "tool") ?? factsIn(started?.data, "tool"), "name") ??
    textIn(own[0]?.data, "tool");
  return {
    callId,
    tool,
    schema: factsIn(request, "parameters"),
    versions: versionsOf(callId, events, requested, last("approval.decided"), ended),
    requested,
    decided: last("approval.decided"),
    started,
    ended,
    events: own,
  };
}

function versionsOf(
  callId: string,
  events: readonly SessionEvent[],
  requested: SessionEvent | null,
  decided: SessionEvent | null,
  ended: SessionEvent | null,
): readonly ArgumentsVersion[] {
  const versions: ArgumentsVersion[] = [];
  const proposed = proposedArguments(callId, events);
  const shown = valueIn(factsIn(requested?.data, "request"), "arguments");
  const decision = factsIn(factsIn(decided?.data, "decided"), "decision");
  const edited = valueIn(decision, "arguments");
  if (proposed !== undefined) versions.push({ kind: "proposed", value: proposed, by: null });
  if (shown !== undefined && !same(shown, proposed)) {
    // What an approver saw has the defaults, and what hooks made of the proposal.
    versions.push({ kind: proposed === undefined ? "proposed" : "shown", value: shown, by: null });
  }
  if (edited !== undefined && edited !== null) {
    const by = textIn(factsIn(factsIn(decided?.data, "decided"), "actor"), "name");
    versions.push({ kind: "edited", value: edited, by });
  }
  const executed = valueIn(ended?.data, "params");
  const hasRun = ended !== null && (events.some(isStart(callId)) || ended.data["success"] === true);
  if (executed !== undefined && executed !== null && hasRun) {
    versions.push({ kind: "executed", value: executed, by: null });
  } else if (versions.length === 0 && executed !== undefined && executed !== null) {
    versions.push({ kind: "proposed", value: executed, by: null });
  }
  return versions;
}

const isStart = (callId: string) => (event: SessionEvent) =>
  event.kind === "call.started" && callIdOf(event) === callId;

/** What the model wrote, in any of the forms in which providers send it. */
function proposedArguments(callId: string, events: readonly SessionEvent[]): JsonValue | undefined {
  for (const event of events) {
    if (event.kind !== "model.responded") continue;
    const items = event.data["items"];
    for (const item of callItems(Array.isArray(items) ? items : [])) {
      const ids = [item["call_id"], item["id"], item["tool_call_id"]];
      if (!ids.includes(callId)) continue;
      const written = item["arguments"] ?? item["input"] ?? item["args"];
      return typeof written === "string" ? parsed(written) : (written as JsonValue | undefined);
    }
  }
  return undefined;
}

/** Items, and the calls within messages of those providers that put them there. */
function* callItems(items: readonly unknown[]): Generator<Record<string, unknown>> {
  for (const item of items) {
    if (!isFacts(item)) continue;
    yield item;
    for (const name of ["content", "parts", "tool_calls"]) {
      const inner = item[name];
      if (Array.isArray(inner)) yield* callItems(inner);
    }
  }
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text;
  }
}

function isFacts(value: unknown): value is Record<string, unknown> {
  return isObject(value as JsonValue | undefined);
}

/** The object under a name; null when there is none. */
export function factsIn(
  facts: Readonly<Record<string, unknown>> | null | undefined,
  name: string,
): Record<string, unknown> | null {
  const value = facts?.[name];
  return isFacts(value) ? value : null;
}

/** The text under a name; null when there is none. */
export function textIn(
  facts: Readonly<Record<string, unknown>> | null | undefined,
  name: string,
): string | null {
  const value = facts?.[name];
  return typeof value === "string" && value !== "" ? value : null;
}

/** The number under a name; null when there is none. */
export function numberIn(
  facts: Readonly<Record<string, unknown>> | null | undefined,
  name: string,
): number | null {
  const value = facts?.[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function valueIn(
  facts: Readonly<Record<string, unknown>> | null | undefined,
  name: string,
): JsonValue | undefined {
  return facts?.[name] as JsonValue | undefined;
}
