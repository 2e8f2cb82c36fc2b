import { api, ApiError, dataOf } from "@/api/client";
import { follow, type StreamEvent, type StreamState } from "@/api/events";
import type { Envelope } from "@/parts/timeline/envelope";
import type { Row } from "@/parts/timeline/rows";
import { Turns } from "@/parts/timeline/turns";

/** How many events are read first, and with each page of older ones. */
export const FIRST_PAGE = 400;
const OLDER_PAGE = 1_000;
/** How many events are taken in one go; the page answers to keys in between. */
const SLICE = 400;
const FLUSH_MS = 30;
const POLL_MS = 3_000;

/** The connection of a transcript: `closed` while the session is open in no process of the server. */
export type FeedState = StreamState | "closed";

/** What is known of a session's events at one moment. */
export interface FeedSnapshot {
  rows: readonly Row[];
  /** The recorded events that were read, in order. */
  events: readonly Envelope[];
  state: FeedState;
  isLoading: boolean;
  isLoadingOlder: boolean;
  hasOlder: boolean;
  error: unknown;
  lastSeq: number;
  /** The key of the row that shows a recorded event. */
  rowOf: (seq: number) => string | null;
  /** The call that a recorded event is about. */
  callOf: (seq: number) => string | null;
}

/** Where a feed gets its events from; the server, unless a test says otherwise. */
export interface FeedSource {
  /** Whether the session is open on the server, and the number of its last record. */
  standing(): Promise<{ isOpen: boolean; lastSeq: number }>;
  page(query: { after?: number; before?: number; limit: number }): Promise<Envelope[]>;
  follow(options: {
    after: number;
    onEvent: (event: StreamEvent) => void;
    onState: (state: StreamState) => void;
    signal: AbortSignal;
  }): Promise<void>;
}

/** The events of a session: the newest page, older ones on request, and new ones as they happen. */
export class SessionFeed {
  private turns = new Turns();
  private events: Envelope[] = [];
  private queue: Envelope[] = [];
  private snapshot: FeedSnapshot;
  private readonly listeners = new Set<() => void>();
  private stopper = new AbortController();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private isRebuilding = false;
  private isFilling = false;

  constructor(private readonly source: FeedSource) {
    this.snapshot = {
      rows: [],
      events: [],
      state: "connecting",
      isLoading: true,
      isLoadingOlder: false,
      hasOlder: false,
      error: null,
      lastSeq: 0,
      rowOf: (seq) => this.turns.rowOf(seq),
      callOf: (seq) => this.turns.callOf(seq),
    };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly read = (): FeedSnapshot => this.snapshot;

  /** Read the newest page and follow from there, until `stop`. */
  async start(): Promise<void> {
    this.stopper = new AbortController();
    const { signal } = this.stopper;
    this.change({ isLoading: true, error: null });
    try {
      if (this.events.length === 0) {
        const events = await this.source.page({ before: 0, limit: FIRST_PAGE });
        if (signal.aborted) return;
        await this.prepend(events);
      }
    } catch (error) {
      if (!signal.aborted) this.change({ isLoading: false, error });
      return;
    }
    this.change({ isLoading: false });
    await this.keepUp(signal);
  }

  stop(): void {
    this.stopper.abort();
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  /** Read one more page of older events. */
  async loadOlder(): Promise<void> {
    if (this.snapshot.isLoadingOlder || !this.snapshot.hasOlder) return;
    this.change({ isLoadingOlder: true });
    try {
      const before = this.events[0]?.seq ?? 1;
      await this.prepend(await this.source.page({ before, limit: OLDER_PAGE }));
    } catch (error) {
      this.change({ error });
    } finally {
      this.change({ isLoadingOlder: false });
    }
  }

  /** Read older pages until an event is there, or all are; they are shown together. */
  async loadTo(seq: number): Promise<void> {
    if (this.snapshot.isLoadingOlder || !this.snapshot.hasOlder) return;
    let before = this.events[0]?.seq ?? 1;
    if (before <= seq) return;
    this.change({ isLoadingOlder: true });
    const older: Envelope[] = [];
    try {
      while (before > Math.max(seq, 1)) {
        const page = await this.source.page({ before, limit: OLDER_PAGE });
        if (page.length === 0) break;
        older.push(...page);
        before = page.at(-1)?.seq ?? 1;
      }
      await this.prepend(older);
    } catch (error) {
      this.change({ error });
    } finally {
      this.change({ isLoadingOlder: false });
    }
  }

  private async keepUp(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        // Who follows a session that is not open is refused, so it is asked before.
        if ((await this.source.standing()).isOpen) await this.follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!isMissing(error) && !isOffline(error)) {
          this.change({ error, state: "lost" });
          return;
        }
      }
      if (signal.aborted) return;
      // Closed, or open in another process: its ledger may grow all the same.
      this.turns.dropLive();
      this.setState("closed");
      await this.poll(signal);
    }
  }

  private follow(signal: AbortSignal): Promise<void> {
    return this.source.follow({
      after: this.lastSeq(),
      signal,
      onEvent: (event) => this.hear(event),
      onState: (state) => this.setState(state),
    });
  }

  /** Look now and then for new records, until the session is open. */
  private async poll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(POLL_MS, signal);
      if (signal.aborted) return;
      try {
        const { isOpen, lastSeq } = await this.source.standing();
        if (isOpen) return;
        if (lastSeq > this.lastSeq()) await this.fill();
        this.setState("closed");
      } catch (error) {
        if (isMissing(error)) {
          this.change({ error });
          return this.stop();
        }
        this.setState("lost");
      }
    }
  }

  /** Read all recorded events after the last one. */
  private async fill(): Promise<void> {
    for (;;) {
      const events = await this.source.page({ after: this.lastSeq(), limit: OLDER_PAGE });
      if (events.length === 0) return;
      this.queue.push(...events);
      this.flushAll();
    }
  }

  private hear(event: StreamEvent): void {
    if (event.kind === "events.gap" || event.kind === "events.ended") return;
    const envelope = JSON.parse(event.data) as Envelope;
    this.queue.push(envelope);
    this.timer ??= setTimeout(this.flush, FLUSH_MS);
  }

  private setState(state: FeedState): void {
    if (state === "lost" && this.snapshot.state !== "lost") {
      this.turns.dropLive();
      this.publish();
    }
    this.change(state === "live" ? { state, error: null } : { state });
  }

  private lastSeq(): number {
    const queued = this.queue.findLast((event) => event.is_kept);
    return queued?.seq ?? this.turns.lastSeq;
  }

  private readonly flush = (): void => {
    this.timer = null;
    if (this.isRebuilding) return;
    this.take(this.queue.splice(0, SLICE));
    if (this.queue.length > 0) this.timer = setTimeout(this.flush, 0);
    this.publish();
  };

  private flushAll(): void {
    if (this.isRebuilding) return;
    while (this.queue.length > 0) this.take(this.queue.splice(0, SLICE));
    this.publish();
  }

  private take(events: Envelope[]): void {
    let last = this.turns.lastSeq;
    const first = last;
    const fresh = events.filter((event) => {
      if (!event.is_kept || event.seq <= last) return false;
      last = event.seq;
      return true;
    });
    const hasGap = first > 0 && last - first > fresh.length;
    if (hasGap && !this.isFilling) {
      // A stream never leaves a record out; should one be missing, the ledger has it.
      this.isFilling = true;
      void this.fill()
        .catch(() => undefined)
        .finally(() => {
          this.isFilling = false;
        });
      return;
    }
    this.turns.push(events);
    if (fresh.length > 0) this.events = this.events.concat(fresh);
  }

  /** Put older events before the others. The rows are made anew, piece by piece. */
  private async prepend(newestFirst: Envelope[]): Promise<void> {
    const older = [...newestFirst].reverse();
    this.isRebuilding = true;
    try {
      this.events = older.concat(this.events);
      const turns = new Turns();
      for (let index = 0; index < this.events.length; index += SLICE) {
        if (index > 0) await breath();
        turns.push(this.events.slice(index, index + SLICE));
        turns.settle();
      }
      await breath();
      turns.list();
      await breath();
      this.turns = turns;
    } finally {
      this.isRebuilding = false;
    }
    this.change({ hasOlder: older.length > 0 && (this.events[0]?.seq ?? 1) > 1 });
    this.flush();
  }

  private publish(): void {
    const { turns } = this;
    this.change({
      rows: turns.list(),
      events: this.events,
      lastSeq: turns.lastSeq,
      rowOf: (seq) => turns.rowOf(seq),
      callOf: (seq) => turns.callOf(seq),
    });
  }

  private change(change: Partial<FeedSnapshot>): void {
    this.snapshot = { ...this.snapshot, ...change };
    for (const listener of this.listeners) listener();
  }
}

/** The events of a session on the server. */
export function serverSource(sessionId: string): FeedSource {
  const path = { session_id: sessionId };
  return {
    async standing() {
      const facts = dataOf(await api.GET("/v1/sessions/{session_id}", { params: { path } }));
      return { isOpen: facts.state === "open", lastSeq: facts.last_seq };
    },
    async page({ after, before, limit }) {
      const query =
        before === undefined
          ? { after: after ?? 0, limit }
          : { newest_first: true, limit, ...(before > 0 ? { before } : {}) };
      const answer = await api.GET("/v1/sessions/{session_id}/events", { params: { path, query } });
      // As JSON, for that is what was asked for; with another Accept it is a stream.
      return (dataOf(answer) as unknown as { events: Envelope[] }).events;
    },
    follow: ({ after, ...options }) =>
      follow({
        url: `/v1/sessions/${encodeURIComponent(sessionId)}/events`,
        after: String(after),
        isLast: (event) => event.kind === "events.ended",
        ...options,
      }),
  };
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

function isOffline(error: unknown): boolean {
  return error instanceof ApiError && (error.isOffline || error.status >= 500);
}

/** Let the page draw and answer before more is done. */
function breath(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal.addEventListener("abort", finish, { once: true });
  });
}
