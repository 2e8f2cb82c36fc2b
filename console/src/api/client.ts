import createClient from "openapi-fetch";

import { currentCsrf } from "@/api/csrf";
import type { paths } from "@/api/schema";

/** What the server refused, or that it could not be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly facts: unknown = undefined,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** Whether the server was not reached, so that nobody knows whether it did anything. */
  get isOffline(): boolean {
    return this.status === 0;
  }
}

interface Refusal {
  error?: { kind?: string; message?: string; facts?: unknown };
}

/** The error of an answer that is not a success. */
export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  const refusal = readRefusal(text);
  return new ApiError(
    response.status,
    refusal?.error?.kind ?? "internal",
    refusal?.error?.message ?? `The server answered ${response.status}.`,
    refusal?.error?.facts,
  );
}

function readRefusal(text: string): Refusal | null {
  try {
    return JSON.parse(text) as Refusal;
  } catch {
    return null;
  }
}

/** Like `fetch`, with the CSRF header, and with an `ApiError` for whatever is not a success. */
export async function request(input: Request | string, init?: RequestInit): Promise<Response> {
  const asked = new Request(input, init);
  const csrf = currentCsrf();
  if (csrf !== null && asked.method !== "GET") asked.headers.set("Toolcrib-CSRF", csrf);
  let response: Response;
  try {
    response = await fetch(asked);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "offline", "The server cannot be reached.");
  }
  if (response.ok) return response;
  const failure = await errorOf(response);
  if (failure.status === 401) window.dispatchEvent(new Event(SIGNED_OUT));
  throw failure;
}

/** The event of the window that says: the sign-in is over. */
export const SIGNED_OUT = "toolcrib:signed-out";

/** The event of the window that says: somebody has signed in, here or in another tab. */
export const SIGNED_IN = "toolcrib:signed-in";

/** The typed client of every operation. A refusal is thrown as `ApiError`. */
export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: request });

/** The data of an answer of `api`. Refusals were thrown before; what is left has data. */
export function dataOf<T>(answer: { data?: T; response: Response }): T {
  if (answer.data === undefined) {
    throw new ApiError(answer.response.status, "internal", "The server's answer was empty.");
  }
  return answer.data;
}
