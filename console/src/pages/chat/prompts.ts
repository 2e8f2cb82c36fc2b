import { api, ApiError, dataOf, request } from "@/api/client";
import { readEvents } from "@/api/events";
import type { components } from "@/api/schema";

export type PromptResult = components["schemas"]["PromptResult"];

/** A key under which the server takes a request once, however often it is sent. */
export function newKey(): string {
  return `page-${crypto.randomUUID()}`;
}

/** Make a session for a conversation. Trying again under the same key gives the same one. */
export async function createSession(key: string): Promise<string> {
  const answer = await api.POST("/v1/sessions", {
    body: {},
    params: { header: { "Idempotency-Key": key } },
  });
  return dataOf(answer).session_id;
}

/**
 * Send a prompt, and return when it has begun: the events of the session have the rest. A result is
 * returned when it ended before that, such as one that failed at once.
 */
export function sendPrompt(
  sessionId: string,
  text: string,
  key: string,
): Promise<PromptResult | null> {
  return begin(`/v1/sessions/${encodeURIComponent(sessionId)}/prompt`, { text }, key);
}

/** Take up the prompt that waits, failed or was cut off; returns when it goes on. */
export function resumePrompt(sessionId: string): Promise<PromptResult | null> {
  return begin(`/v1/sessions/${encodeURIComponent(sessionId)}/prompt/resume`, {}, newKey());
}

/** Let go of a session, so that another process may open it from the store. */
export async function closeSession(sessionId: string): Promise<void> {
  const params = { path: { session_id: sessionId } };
  await api.POST("/v1/sessions/{session_id}/close", { params, body: {} });
}

/** Open a session of the store at this server; one that is open stays as it is. */
export async function openSession(sessionId: string): Promise<void> {
  const params = { path: { session_id: sessionId } };
  await api.POST("/v1/sessions/{session_id}/resume", { params, body: {} });
}

/** Stop the prompt and the calls that run for it. */
export async function cancelPrompt(sessionId: string): Promise<boolean> {
  const params = { path: { session_id: sessionId } };
  const answer = await api.POST("/v1/sessions/{session_id}/prompt/cancel", { params, body: {} });
  return dataOf(answer).was_running;
}

/** Cancel one call; the model hears that it was, and goes on. */
export async function cancelCall(sessionId: string, callId: string): Promise<void> {
  const params = { path: { session_id: sessionId, call_id: callId } };
  await api.POST("/v1/sessions/{session_id}/calls/{call_id}/cancel", { params, body: {} });
}

const BEGUN = ["prompt.started", "prompt.resumed"];

async function begin(url: string, body: object, key: string): Promise<PromptResult | null> {
  // Leaving the request cancels nothing, and a browser has few connections for each server.
  const leave = new AbortController();
  const response = await request(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "text/event-stream",
      "Idempotency-Key": key,
    },
    body: JSON.stringify(body),
    signal: leave.signal,
  });
  try {
    for await (const event of readEvents(response)) {
      if (BEGUN.includes(event.kind)) return null;
      if (event.kind === "result") return JSON.parse(event.data) as PromptResult;
      if (event.kind === "error") throw refusalIn(event.data);
    }
    return null;
  } finally {
    leave.abort();
  }
}

function refusalIn(data: string): ApiError {
  const refusal = JSON.parse(data) as { error: { kind: string; message: string } };
  return new ApiError(409, refusal.error.kind, refusal.error.message);
}
