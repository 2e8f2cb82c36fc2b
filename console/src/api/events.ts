import { ApiError, request, SIGNED_IN } from "@/api/client";

/** One server-sent event. */
export interface StreamEvent {
  id: string | null;
  kind: string;
  data: string;
}

export type StreamState = "connecting" | "live" | "lost" | "ended";

/** Splits the text of an event stream into events, whatever the pieces are that it comes in. */
export class EventParser {
  private rest = "";

  push(piece: string): StreamEvent[] {
    const blocks = (this.rest + piece).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(readBlock).filter((event) => event !== null);
  }
}

function readBlock(block: string): StreamEvent | null {
  let id: string | null = null;
  let kind = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return data.length === 0 ? null : { id, kind, data: data.join("\n") };
}

export interface Follow {
  url: string;
  /** The id after which to begin; null is the beginning. */
  after: string | null;
  onEvent: (event: StreamEvent) => void;
  onState: (state: StreamState) => void;
  /** Whether an event is the last one: nothing is to be opened again after it. */
  isLast: (event: StreamEvent) => boolean;
  signal: AbortSignal;
}

/**
 * Follow a stream of events until it ends. A lost connection is opened again after the last id, so
 * that no event is missed or seen twice. Throws `ApiError` when the server refuses.
 */
export async function follow(options: Follow): Promise<void> {
  let after = options.after;
  let failures = 0;
  while (!options.signal.aborted) {
    options.onState(failures === 0 ? "connecting" : "lost");
    try {
      const stream = await openStream(options.url, after, options.signal);
      for await (const event of stream) {
        failures = 0;
        if (event === "open") {
          options.onState("live");
          continue;
        }
        if (event.id !== null) after = event.id;
        options.onEvent(event);
        if (options.isLast(event)) {
          options.onState("ended");
          return;
        }
      }
    } catch (error) {
      if (options.signal.aborted) return;
      if (error instanceof ApiError && error.status === 401) {
        // The sign-in has ended. Whoever signs in again goes on where they were.
        options.onState("lost");
        await nextSignIn(options.signal);
        failures = 0;
        continue;
      }
      if (error instanceof ApiError && !isPassing(error)) throw error;
    }
    failures += 1;
    options.onState("lost");
    await pause(backOff(failures), options.signal);
  }
}

/** Whether the same request may succeed later. */
function isPassing(error: ApiError): boolean {
  return error.isOffline || error.status >= 500 || error.status === 429;
}

/** Wait until somebody has signed in, here or in another tab. */
function nextSignIn(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      window.removeEventListener(SIGNED_IN, finish);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    window.addEventListener(SIGNED_IN, finish);
    signal.addEventListener("abort", finish);
  });
}

/** How long to wait before the next attempt, in milliseconds. */
export function backOff(failures: number): number {
  return Math.min(250 * 2 ** Math.min(failures - 1, 6), 10_000);
}

async function* openStream(
  url: string,
  after: string | null,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent | "open"> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (after !== null) headers["Last-Event-ID"] = after;
  const response = await request(url, { headers, signal, cache: "no-store" });
  yield "open";
  yield* readEvents(response);
}

/** The events of a response, one after the other. */
export async function* readEvents(response: Response): AsyncGenerator<StreamEvent> {
  if (response.body === null) return;
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** Wait, or until the page is back online or in sight, whichever comes first. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      window.removeEventListener("online", finish);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    window.addEventListener("online", finish);
    signal.addEventListener("abort", finish);
  });
}
