import { api, ApiError, dataOf, request } from "@/api/client";
import { backOff, readEvents, type StreamEvent } from "@/api/events";
import type { components } from "@/api/schema";

export type CallResult = components["schemas"]["CallResult"];

/** One call of a tool: where it is made and under which id. */
export interface CallPlace {
  sessionId: string;
  callId: string;
  tool: string;
}

export interface Progress {
  current: number;
  total: number | null;
  message: string | null;
}

export type RunState =
  | { phase: "idle" }
  | { phase: "opening" }
  | {
      phase: "running";
      place: CallPlace;
      startedAt: number;
      progress: Progress | null;
      output: string;
      question: string | null;
      isLost: boolean;
    }
  | { phase: "waiting"; place: CallPlace; approvalId: string }
  | { phase: "ended"; place: CallPlace; result: CallResult; seconds: number | null }
  | { phase: "refused"; error: unknown };

export type RunAction =
  | { type: "open" }
  | { type: "begin"; place: CallPlace; at: number }
  | { type: "event"; event: StreamEvent }
  | { type: "lost" }
  | { type: "result"; result: CallResult; at: number }
  | { type: "refused"; error: unknown }
  | { type: "reset" };

/** So much of the output of a running call is shown; the record has all of it. */
const MOST_OUTPUT = 100_000;

/** What becomes of a run: one call, from the click to its result. */
export function nextState(state: RunState, action: RunAction): RunState {
  switch (action.type) {
    case "open":
      return { phase: "opening" };
    case "begin":
      return {
        phase: "running",
        place: action.place,
        startedAt: action.at,
        progress: null,
        output: "",
        question: null,
        isLost: false,
      };
    case "event":
      return state.phase === "running" ? withEvent(state, action.event) : state;
    case "lost":
      return state.phase === "running" ? { ...state, isLost: true } : state;
    case "result":
      return state.phase === "running" ? withResult(state, action.result, action.at) : state;
    case "refused":
      return { phase: "refused", error: action.error };
    case "reset":
      return { phase: "idle" };
  }
}

type Running = Extract<RunState, { phase: "running" }>;

function withResult(state: Running, result: CallResult, at: number): RunState {
  const { place } = state;
  if (result.status === "waiting" && result.approval_id != null) {
    return { phase: "waiting", place, approvalId: result.approval_id };
  }
  return { phase: "ended", place, result, seconds: at - state.startedAt };
}

function withEvent(state: Running, event: StreamEvent): RunState {
  const facts = dataIn(event);
  const live = { ...state, isLost: false };
  if (facts === null || facts["call_id"] !== state.place.callId) return live;
  switch (event.kind) {
    case "tool.progress":
      return {
        ...live,
        progress: {
          current: Number(facts["current"]),
          total: typeof facts["total"] === "number" ? facts["total"] : null,
          message: typeof facts["message"] === "string" ? facts["message"] : null,
        },
      };
    case "tool.output":
      return { ...live, output: (state.output + String(facts["chunk"])).slice(-MOST_OUTPUT) };
    case "question.asked":
      return { ...live, question: questionIn(facts) };
    case "question.answered":
    case "question.closed":
      return { ...live, question: null };
    default:
      return live;
  }
}

function dataIn(event: StreamEvent): Record<string, unknown> | null {
  const envelope = JSON.parse(event.data) as { data?: Record<string, unknown> };
  return envelope.data ?? null;
}

function questionIn(facts: Record<string, unknown>): string {
  const question = facts["question"] as { message?: unknown } | undefined;
  return typeof question?.message === "string" ? question.message : "";
}

/** A new id for a call. It is known before the call begins, so that the call can be stopped. */
export function newCallId(): string {
  // `randomUUID` is there on secure origins only.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Open a session for one operator call; the record says what it is for. */
export async function openSession(tool: string): Promise<string> {
  const body = { is_temporary: true, metadata: { purpose: "operator call", tool } };
  return dataOf(await api.POST("/v1/sessions", { body })).session_id;
}

/** Let go of a session whose call has ended; it stays in the record. */
export async function closeSession(sessionId: string): Promise<void> {
  const params = { path: { session_id: sessionId } };
  await api.POST("/v1/sessions/{session_id}/close", { params, body: {} }).catch(() => undefined);
}

export async function stopCall(place: CallPlace): Promise<void> {
  const params = { path: { session_id: place.sessionId, call_id: place.callId } };
  await api.POST("/v1/sessions/{session_id}/calls/{call_id}/cancel", { params, body: {} });
}

interface CallOptions {
  place: CallPlace;
  /** Undefined takes up a call that waits, with the arguments that it has. */
  arguments: Record<string, unknown> | undefined;
  signal: AbortSignal;
  onEvent: (event: StreamEvent) => void;
  onLost: () => void;
}

/**
 * Make a call and follow it to its result. A lost connection changes nothing about the call: it is
 * asked for again by its id, which never runs it twice.
 */
export async function followCall(options: CallOptions): Promise<CallResult> {
  for (let failures = 1; ; failures += 1) {
    try {
      const result = await streamCall(options);
      if (result !== null) return result;
    } catch (error) {
      if (options.signal.aborted || !(await canRetry(error, options.place))) throw error;
    }
    options.onLost();
    await new Promise((resolve) => setTimeout(resolve, backOff(failures)));
    options.signal.throwIfAborted();
  }
}

async function canRetry(error: unknown, place: CallPlace): Promise<boolean> {
  if (!(error instanceof ApiError)) return false;
  if (error.isOffline || error.kind === "closing" || error.kind === "busy") return true;
  // A server that was restarted has the session in its store, and not open.
  if (error.kind !== "not_found") return false;
  const params = { path: { session_id: place.sessionId } };
  await api.POST("/v1/sessions/{session_id}/resume", { params, body: {} });
  return true;
}

/** The result of one attempt; null when the stream ended before it. */
async function streamCall(options: CallOptions): Promise<CallResult | null> {
  const { place, signal } = options;
  const session = encodeURIComponent(place.sessionId);
  const response = await request(
    `/v1/sessions/${session}/tools/${encodeURIComponent(place.tool)}/call`,
    {
      method: "POST",
      headers: { Accept: "text/event-stream", "Content-Type": "application/json" },
      body: JSON.stringify({ call_id: place.callId, arguments: options.arguments ?? {} }),
      signal,
    },
  );
  try {
    for await (const event of readEvents(response)) {
      if (event.kind === "result") return JSON.parse(event.data) as CallResult;
      if (event.kind === "error") throw refusalIn(event);
      options.onEvent(event);
    }
  } catch (error) {
    // The network went away in the middle: that is no refusal.
    if (error instanceof ApiError || signal.aborted) throw error;
  }
  return null;
}

function refusalIn(event: StreamEvent): ApiError {
  const { error } = JSON.parse(event.data) as { error?: { kind?: string; message?: string } };
  return new ApiError(400, error?.kind ?? "internal", error?.message ?? "");
}
