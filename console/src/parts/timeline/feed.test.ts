import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ApiError } from "@/api/client";
import type { StreamEvent } from "@/api/events";
import type { Envelope } from "@/parts/timeline/envelope";
import { FIRST_PAGE, SessionFeed, type FeedSource } from "@/parts/timeline/feed";

function record(seq: number): Envelope {
  const data = { call_id: `c${seq}`, name: "t", tool: { name: "t" }, success: true };
  return { session_id: "s", seq, kind: "tool.invoked", at: seq, data, is_kept: true };
}

/** A ledger, and the streams that were opened on it. */
class FakeServer implements FeedSource {
  ledger: Envelope[] = [];
  streams: { after: number; send: (event: Envelope) => void; end: (error?: Error) => void }[] = [];

  constructor(count: number) {
    for (let seq = 1; seq <= count; seq += 1) this.ledger.push(record(seq));
  }

  isOpen = true;

  standing() {
    return Promise.resolve({ isOpen: this.isOpen, lastSeq: this.ledger.at(-1)?.seq ?? 0 });
  }

  page({ after, before, limit }: { after?: number; before?: number; limit: number }) {
    if (before === undefined) {
      return Promise.resolve(this.ledger.filter((each) => each.seq > (after ?? 0)).slice(0, limit));
    }
    const older = this.ledger.filter((each) => before === 0 || each.seq < before);
    return Promise.resolve(older.slice(-limit).reverse());
  }

  follow(options: Parameters<FeedSource["follow"]>[0]): Promise<void> {
    options.onState("live");
    return new Promise((resolve, reject) => {
      this.streams.push({
        after: options.after,
        send: (event) => options.onEvent(asStream(event)),
        end: (error) => (error === undefined ? resolve() : reject(error)),
      });
      options.signal.addEventListener("abort", () => resolve());
    });
  }
}

function asStream(event: Envelope): StreamEvent {
  return { id: String(event.seq), kind: event.kind, data: JSON.stringify(event) };
}

async function started(server: FakeServer): Promise<SessionFeed> {
  const feed = new SessionFeed(server);
  void feed.start();
  await vi.advanceTimersByTimeAsync(50);
  return feed;
}

const seqs = (feed: SessionFeed) => feed.read().events.map((event) => event.seq);
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe("the feed of a session", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("begins with the newest page, and reads older ones before it", async () => {
    const feed = await started(new FakeServer(FIRST_PAGE + 1500));
    expect([seqs(feed)[0], feed.read().hasOlder]).toEqual([1501, true]);
    void feed.loadTo(3);
    await vi.advanceTimersByTimeAsync(500);
    expect(seqs(feed)).toEqual(upTo(FIRST_PAGE + 1500));
    expect(feed.read().hasOlder).toBe(false);
    expect(feed.read().rows.length).toBe(FIRST_PAGE + 1500);
    feed.stop();
  });

  it("takes new events once, and in order, while older ones are read", async () => {
    const server = new FakeServer(2_000);
    const feed = await started(server);
    expect(server.streams[0]?.after).toBe(2_000);
    const loading = feed.loadTo(1);
    for (const seq of [2001, 2001, 2002]) server.streams[0]?.send(record(seq));
    await vi.advanceTimersByTimeAsync(1_000);
    await loading;
    expect(seqs(feed)).toEqual(upTo(2_002));
    feed.stop();
  });

  it("reads what a stream left out from the ledger", async () => {
    const server = new FakeServer(5);
    const feed = await started(server);
    server.ledger.push(record(6), record(7), record(8));
    server.streams[0]?.send(record(8));
    await vi.advanceTimersByTimeAsync(200);
    expect(seqs(feed)).toEqual(upTo(8));
    feed.stop();
  });

  it("looks for new records while the session is not open, and follows again after them", async () => {
    const server = new FakeServer(5);
    const feed = await started(server);
    server.isOpen = false;
    server.streams[0]?.end(new ApiError(404, "not_found", "not open here"));
    await vi.advanceTimersByTimeAsync(10);
    expect(feed.read().state).toBe("closed");
    server.ledger.push(record(6));
    await vi.advanceTimersByTimeAsync(4_000);
    expect([seqs(feed), server.streams.length]).toEqual([upTo(6), 1]);
    server.isOpen = true;
    await vi.advanceTimersByTimeAsync(4_000);
    expect(server.streams[1]?.after).toBe(6);
    feed.stop();
  });

  it("says what went wrong", async () => {
    const server = new FakeServer(1);
    server.page = () => Promise.reject(new ApiError(403, "forbidden", "no"));
    const feed = await started(server);
    expect(feed.read()).toMatchObject({ isLoading: false, error: { status: 403 } });
    feed.stop();
  });

  it("stops when the session is gone", async () => {
    const server = new FakeServer(1);
    const feed = await started(server);
    server.standing = () => Promise.reject(new ApiError(404, "not_found", "no session"));
    server.streams[0]?.end();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(feed.read()).toMatchObject({ error: { status: 404 } });
  });
});
