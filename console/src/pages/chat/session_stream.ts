import { useEffect, useMemo, useSyncExternalStore } from "react";

import { api, ApiError, dataOf } from "@/api/client";
import { follow, type StreamEvent, type StreamState } from "@/api/events";
import type { components } from "@/api/schema";
import type { Envelope } from "@/parts/timeline/envelope";
import type { Row } from "@/parts/timeline/rows";
import { Turns } from "@/parts/timeline/turns";

export type SessionFacts = components["schemas"]["SessionFacts"];

/** A session as the page knows it now. */
export interface SessionView {
  /** What is shown, with what is being written. */
  rows: readonly Row[];
  /** What is recorded. */
  events: readonly Envelope[];
  /** The session as the server described it when the page began to follow it, or did again. */
  facts: SessionFacts | null;
  connection: StreamState;
  /** Why the session cannot be shown. */
  error: unknown;
  /** Whether all that was recorded before is here. */
  isLoaded: boolean;
}

const PAGE = 1_000;
const LOOK_AGAIN = 5_000;

const NOTHING: SessionView = {
  rows: [],
  events: [],
  facts: null,
  connection: "connecting",
  error: null,
  isLoaded: false,
};

/** The events of one session, followed for as long as somebody shows them. */
class SessionStream {
  private view = NOTHING;
  private batch: Envelope[] = [];
  private listeners = new Set<() => void>();
  private frame: number | null = null;
  private lastSeq = 0;
  private readonly transcript = new Turns();
  /** Whether somebody closed the session: it is not opened again unless a person wants it here. */
  private isLetGo = false;
  private wake: (() => void) | null = null;

  constructor(
    private readonly sessionId: string,
    private readonly mayOpen: boolean,
  ) {}

  readonly current = (): SessionView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Open a session again that was closed here. */
  readonly reopen = (): void => {
    this.isLetGo = false;
    this.wake?.();
  };

  /** Follow the session until the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.followOnce(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError) || !isAway(error)) {
          this.change({ error });
          return;
        }
        this.change({ connection: "lost" });
        await this.pause(1_000, signal);
      }
    }
  }

  private async followOnce(signal: AbortSignal): Promise<void> {
    const facts = await this.opened();
    this.change({ facts, error: null });
    if (facts.state !== "open") {
      await this.readAll();
      this.change({ connection: "ended", isLoaded: true });
      await this.pause(LOOK_AGAIN, signal);
      return;
    }
    if (this.lastSeq >= facts.last_seq) this.change({ isLoaded: true });
    try {
      await follow({
        url: `/v1/sessions/${encodeURIComponent(this.sessionId)}/events`,
        after: String(this.lastSeq),
        onEvent: (event) => this.take(event, facts.last_seq),
        onState: (connection) => void this.connected(connection),
        isLast: (event) => {
          this.isLetGo ||= event.kind === "events.ended";
          return event.kind === "events.gap" || event.kind === "events.ended";
        },
        signal,
      });
    } catch (error) {
      // The server was restarted, or let go of the session: it is opened again.
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      this.change({ connection: "lost" });
    }
  }

  /** The session, open if the principal may open it. */
  private async opened(): Promise<SessionFacts> {
    const params = { path: { session_id: this.sessionId } };
    const facts = dataOf(await api.GET("/v1/sessions/{session_id}", { params }));
    if (facts.state === "open" || !this.mayOpen || this.isLetGo) return facts;
    return dataOf(await api.POST("/v1/sessions/{session_id}/resume", { params, body: {} }));
  }

  /** What is recorded of a session that is not open, and that the principal may only read. */
  private async readAll(): Promise<void> {
    for (;;) {
      const query = { after: this.lastSeq, limit: PAGE };
      const path = { session_id: this.sessionId };
      const page = dataOf(
        await api.GET("/v1/sessions/{session_id}/events", { params: { path, query } }),
      );
      if (typeof page === "string" || page.events.length === 0) return;
      for (const event of page.events) this.add(event as unknown as Envelope);
      this.lastSeq = page.last_seq;
    }
  }

  private take(event: StreamEvent, loadedAt: number): void {
    const envelope = readEnvelope(event);
    if (envelope === null) return;
    if (envelope.is_kept) {
      if (envelope.seq <= this.lastSeq) return;
      this.lastSeq = envelope.seq;
    }
    this.add(envelope);
    if (!this.view.isLoaded && this.lastSeq >= loadedAt) this.change({ isLoaded: true });
  }

  private async connected(connection: StreamState): Promise<void> {
    const wasLost = this.view.connection === "lost";
    this.change({ connection });
    if (connection !== "live" || !wasLost) return;
    // Whether somebody still works on the prompt is not in the ledger.
    const params = { path: { session_id: this.sessionId } };
    const answer = await api.GET("/v1/sessions/{session_id}", { params }).catch(() => null);
    if (answer?.data !== undefined) this.change({ facts: answer.data });
  }

  /** Wait, or until the session is wanted here again. */
  private pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        this.wake = null;
        resolve();
      };
      const timer = setTimeout(finish, milliseconds);
      this.wake = finish;
      signal.addEventListener("abort", finish, { once: true });
    });
  }

  private add(envelope: Envelope): void {
    this.batch.push(envelope);
    this.schedule();
  }

  private change(change: Partial<SessionView>): void {
    this.view = { ...this.view, ...change };
    this.schedule();
  }

  /** Show what came at the next frame: a reply comes in many pieces. */
  private schedule(): void {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.batch.length > 0) {
        const batch = this.batch;
        this.batch = [];
        this.transcript.push(batch);
        const events = [...this.view.events, ...batch.filter((event) => event.is_kept)];
        this.view = { ...this.view, events, rows: this.transcript.list() };
      }
      for (const listener of this.listeners) listener();
    });
  }
}

/** The envelope in the data of a server-sent event; null for what is none. */
function readEnvelope(event: StreamEvent): Envelope | null {
  if (event.kind.startsWith("events.")) return null;
  return { ...(JSON.parse(event.data) as Envelope), is_kept: event.id !== null };
}

function isAway(error: ApiError): boolean {
  return error.isOffline || error.status >= 500 || error.status === 429;
}

/** The events of a session, as they happen. With `mayOpen` a closed session is opened again. */
export function useSession(
  sessionId: string,
  mayOpen: boolean,
): { session: SessionView; reopen: () => void } {
  const stream = useMemo(() => new SessionStream(sessionId, mayOpen), [sessionId, mayOpen]);
  useEffect(() => {
    const end = new AbortController();
    void stream.run(end.signal);
    return () => end.abort();
  }, [stream]);
  const session = useSyncExternalStore(stream.subscribe, stream.current);
  return { session, reopen: stream.reopen };
}
