import { describe, expect, it } from "vitest";

import type { SessionEvent } from "./call";
import recorded from "./recorded/events.json";
import { barsOf, waterfallOf } from "./waterfall";

function event(seq: number, at: number, kind: string, data: Record<string, unknown>): SessionEvent {
  return { seq, at, kind, data, is_kept: true };
}

const CALL = { call_id: "c", tool: { name: "order" } };

describe("barsOf", () => {
  it("tells waiting from running", () => {
    const bars = barsOf(
      [
        event(1, 100, "approval.requested", { call_id: "c", request: { tool: { name: "order" } } }),
        event(2, 130, "approval.decided", { call_id: "c", decided: { at: 120 } }),
        event(3, 131, "call.started", CALL),
        event(4, 133, "tool.invoked", { call_id: "c", name: "order", success: true }),
      ],
      999,
    );
    expect(bars).toEqual([
      {
        key: "call-c",
        kind: "call",
        name: "order",
        seq: 4,
        state: "ok",
        spans: [
          { kind: "waiting", from: 100, to: 120 },
          { kind: "running", from: 131, to: 133 },
        ],
      },
    ]);
  });

  it("lets what is open last until now", () => {
    const waiting = [event(1, 10, "approval.requested", { call_id: "c" })];
    expect(barsOf(waiting, 15)[0]?.spans).toEqual([{ kind: "waiting", from: 10, to: 15 }]);
    const running = [event(1, 10, "call.started", CALL)];
    expect(barsOf(running, 15)[0]).toMatchObject({
      state: "open",
      spans: [{ kind: "running", to: 15 }],
    });
  });

  it("ends the wait of a call that expired, and shows a failure", () => {
    const bars = barsOf(
      [
        event(1, 10, "approval.requested", { call_id: "c" }),
        event(2, 20, "tool.invoked", { call_id: "c", success: false }),
      ],
      99,
    );
    expect(bars[0]).toMatchObject({
      state: "failed",
      spans: [{ kind: "waiting", from: 10, to: 20 }],
    });
  });

  it("knows how long a call of the provider and a request to the model ran", () => {
    const bars = barsOf(
      [
        event(1, 10, "prompt.started", { turn: 1 }),
        event(2, 14, "model.responded", { turn: 1, model: "m", status: "completed" }),
        event(3, 14, "tool.invoked", {
          call_id: "w",
          name: "web_search",
          turn: 1,
          duration_seconds: 2,
          success: true,
        }),
      ],
      99,
    );
    expect(bars.map((bar) => [bar.kind, bar.name, bar.spans[0]?.from])).toEqual([
      ["model", "m", 10],
      ["call", "web_search", 12],
    ]);
  });

  it("reads a recorded session", () => {
    const bars = barsOf(recorded as readonly SessionEvent[], 0);
    expect(bars.map((bar) => [bar.kind, bar.name, bar.state])).toEqual([
      ["model", "clerk", "ok"],
      ["call", "order_parts", "ok"],
      ["model", "clerk", "ok"],
    ]);
  });
});

describe("waterfallOf", () => {
  const bar = (seq: number, from: number, to: number) => ({
    key: String(seq),
    kind: "call" as const,
    name: "t",
    seq,
    state: "ok" as const,
    spans: [{ kind: "running" as const, from, to }],
  });

  it("places bars in order between 0 and 1, and leaves long pauses out", () => {
    const { bars, seconds, cuts } = waterfallOf([bar(1, 0, 10), bar(2, 100_000, 100_010)], null);
    expect(seconds).toBeCloseTo(22);
    expect(cuts).toHaveLength(1);
    expect(bars[0]?.places[0]).toMatchObject({ start: 0 });
    const [second] = bars[1]?.places ?? [];
    expect((second?.start ?? 0) + (second?.width ?? 0)).toBeCloseTo(1);
    expect(second?.start).toBeGreaterThan(bars[0]?.places[0]?.width ?? 0);
  });

  it("shows those around the selected of many", () => {
    const many = Array.from({ length: 1_000 }, (_, index) => bar(index + 1, index, index + 1));
    const shown = waterfallOf(many, 500);
    expect(shown.total).toBe(1_000);
    expect(shown.bars).toHaveLength(100);
    expect(shown.bars.some((each) => each.seq === 500)).toBe(true);
    expect(waterfallOf(many, null).bars.at(-1)?.seq).toBe(1_000);
  });

  it("takes nothing and an instant", () => {
    expect(waterfallOf([], null)).toMatchObject({ bars: [], total: 0, seconds: 0 });
    expect(waterfallOf([bar(1, 5, 5)], null).bars[0]?.places[0]).toEqual({
      kind: "running",
      start: 0,
      width: 0,
    });
  });
});
