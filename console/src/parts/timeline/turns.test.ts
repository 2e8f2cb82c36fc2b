import { describe, expect, it } from "vitest";

import { argumentsOf } from "@/parts/timeline/calls";
import type { Envelope } from "@/parts/timeline/envelope";
import recorded from "@/parts/timeline/recorded/workshop.json";
import type { CallItem, CallsRow, ModelRow, Row } from "@/parts/timeline/rows";
import { Turns } from "@/parts/timeline/turns";

const events = recorded as unknown as Envelope[];
const kept = events.filter((event) => event.is_kept);

function transcript(some: readonly Envelope[] = events): Turns {
  const made = new Turns();
  made.push(some);
  return made;
}

function rowsOf(some: readonly Envelope[] = events): readonly Row[] {
  return transcript(some).list();
}

function loud(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row.kind !== "notice");
}

function callsOf(rows: readonly Row[]): CallItem[] {
  return rows.flatMap((row) => (row.kind === "calls" ? row.calls : []));
}

function callOf(rows: readonly Row[], tool: string, nth = 0): CallItem {
  const call = callsOf(rows).filter((each) => each.tool === tool)[nth];
  if (call === undefined) throw new Error(`no call of ${tool}`);
  return call;
}

function until(kind: string, nth = 1): Envelope[] {
  let left = nth;
  const index = events.findIndex((event) => event.kind === kind && (left -= 1) === 0);
  return events.slice(0, index + 1);
}

describe("a recorded session", () => {
  it("is the same from the ledger alone as when it was followed", () => {
    const followed = rowsOf().filter((row) => row.kind !== "notice" || row.event.is_kept);
    const read = rowsOf(kept);
    const withoutTime = (row: Row) => ({ ...row, at: 0, ...("calls" in row && callless(row)) });
    const callless = (row: CallsRow) => ({
      seq: 0,
      calls: row.calls.map((call) => ({ ...call, at: 0, firstSeq: 0 })),
    });
    expect(read.map(withoutTime)).toEqual(followed.map(withoutTime));
  });

  it("is the same in pieces of any size", () => {
    for (const size of [1, 3, 17]) {
      const pieces = new Turns();
      for (let index = 0; index < events.length; index += size) {
        pieces.push(events.slice(index, index + size));
        pieces.list();
      }
      expect(pieces.list()).toEqual(rowsOf());
    }
  });

  it("takes no recorded event twice", () => {
    const twice = transcript(kept);
    twice.push(kept.slice(-20));
    expect(twice.list()).toEqual(rowsOf(kept));
    expect(twice.lastSeq).toBe(kept.at(-1)?.seq);
  });

  it("reads as a conversation", () => {
    const shape = loud(rowsOf())
      .slice(0, 4)
      .map((row) => row.kind);
    expect(shape).toEqual(["prompt", "model", "calls", "model"]);
    expect(rowsOf().filter((row) => row.kind === "notice" && !row.isQuiet)).toEqual([]);
  });

  it("has the parallel calls of a step side by side", () => {
    const [row] = rowsOf().filter((each): each is CallsRow => each.kind === "calls");
    expect(row?.calls.map((call) => [call.tool, argumentsOf(call), call.status])).toEqual([
      ["stock_level", { part: "saws" }, "completed"],
      ["stock_level", { part: "bolts" }, "completed"],
    ]);
  });

  it("shows progress in place, and the output", () => {
    const call = callOf(rowsOf(), "stock_level");
    expect(call.progress).toMatchObject({ current: 2, total: 2, message: "counted" });
    expect(call.output).toBe("shelf 1: saws\nshelf 2: none\n");
    expect(callsOf(rowsOf()).length).toBe(7);
  });

  it("has who decided what, and the edited arguments", () => {
    const [first, second] = [0, 1].map((nth) => callOf(rowsOf(), "order_parts", nth));
    expect(first?.approvals[0]?.decision).toMatchObject({
      kind: "approve",
      actor: "owner",
      edited: { part: "saws", count: 5 },
    });
    expect([first?.status, first?.proposed, first?.params]).toEqual([
      "completed",
      { part: "saws", count: 50 },
      { part: "saws", count: 5 },
    ]);
    expect([second?.status, second?.approvals[0]?.decision?.reason]).toEqual([
      "denied",
      "too many",
    ]);
  });

  it("waits while nobody has decided", () => {
    const call = callOf(rowsOf(until("approval.requested")), "order_parts");
    expect([call.status, call.approvals[0]?.decision]).toEqual(["waiting", null]);
  });

  it("shows failures as such", () => {
    const call = callOf(rowsOf(), "broken");
    expect([call.status, call.end?.["message"]]).toEqual([
      "failed",
      "RuntimeError: the till is jammed",
    ]);
  });

  it("has nested prompts below the call that asked them", () => {
    const rows = loud(rowsOf());
    const index = rows.findIndex(
      (row) => row.kind === "calls" && row.calls.some((call) => call.tool === "translate"),
    );
    const nested = rows.slice(index + 1, index + 3);
    expect(nested.map((row) => [row.kind, row.depth])).toEqual([
      ["prompt", 1],
      ["model", 1],
    ]);
    expect(rows[index + 3]?.depth).toBe(0);
  });

  it("has questions with their answers", () => {
    const open = callOf(rowsOf(until("question.asked")), "choose");
    expect([open.status, open.questions[0]?.text, open.questions[0]?.end]).toEqual([
      "asking",
      "Which account?",
      null,
    ]);
    expect(callOf(rowsOf(), "choose").questions[0]?.end).toMatchObject({
      kind: "answered",
      by: "owner",
      words: "shop",
    });
  });

  it("finds the row of every recorded event", () => {
    const whole = transcript();
    const keys = new Set(whole.list().map((row) => row.key));
    for (const event of kept) expect(keys).toContain(whole.rowOf(event.seq));
  });
});

describe("what is on its way", () => {
  it("shows text and reasoning as they are written", () => {
    const rows = rowsOf(until("model.text_delta"));
    const row = rows.find((each): each is ModelRow => each.kind === "model");
    expect(row).toMatchObject({
      text: "I look ",
      reasoning: ["Two parts, so two calls."],
      isLive: true,
      isPartial: false,
      seq: null,
    });
  });

  it("shows calls while their arguments are written", () => {
    const call = callOf(rowsOf(until("model.arguments_delta", 2)), "stock_level");
    expect([call.status, argumentsOf(call)]).toEqual(["writing", { part: "saws" }]);
  });

  it("goes on from what was written before it was followed", () => {
    const data = { turn: 90, step: 1 };
    const piece = { session_id: "s", seq: 1, at: 0, is_kept: false };
    const calls = [{ call_id: "late", tool: "order", text: '{"part"' }];
    const [row, written] = rowsOf([
      { ...piece, kind: "model.text_delta", data: { ...data, text: "Th" } },
      {
        ...piece,
        kind: "model.partial_reply",
        data: { ...data, text: "There are ", reasoning: ["Hm."], calls },
      },
      { ...piece, kind: "model.text_delta", data: { ...data, text: "two." } },
      {
        ...piece,
        kind: "model.arguments_delta",
        data: { ...data, call_id: "late", tool: "order", text: ': "saws"}' },
      },
    ]);
    expect(row).toMatchObject({ text: "There are two.", reasoning: ["Hm."], isLive: true });
    expect(written).toMatchObject({ calls: [{ proposed: '{"part": "saws"}' }] });
  });

  it("begins a text anew after a restart", () => {
    const [first] = events.filter((event) => event.kind === "model.text_delta");
    if (first === undefined) throw new Error("no text");
    const again = { ...first, data: { ...first.data, text: "Anew", is_restart: true } };
    const row = rowsOf([...until("model.text_delta"), again]).find((each) => each.kind === "model");
    expect(row?.kind === "model" && row.text).toBe("Anew");
  });

  it("says that a beginning was missed after a lost connection", () => {
    const half = transcript(until("model.text_delta"));
    half.dropLive();
    half.push([...events.filter((event) => event.kind === "model.text_delta").slice(1, 2)]);
    const row = half.list().find((each) => each.kind === "model");
    expect(row).toMatchObject({ text: "at both.", isPartial: true });
    half.push(kept.filter((event) => event.kind === "model.responded").slice(0, 1));
    expect(half.list().find((each) => each.kind === "model")).toMatchObject({
      text: "I look at both.",
      isPartial: false,
      isLive: false,
    });
  });

  it("keeps rows that did not change", () => {
    const grown = transcript(until("model.responded", 2));
    const before = grown.list();
    grown.push(until("model.responded", 4).slice(until("model.responded", 2).length));
    const after = grown.list();
    // The last one has become the answer since.
    expect(before.slice(0, -1).every((row, index) => row === after[index])).toBe(true);
  });
});

describe("what is out of the ordinary", () => {
  const about = { session_id: "s", at: 1, is_kept: true };

  it("shows a call whose beginning is on an older page", () => {
    const rows = rowsOf(kept.filter((event) => event.kind === "tool.invoked"));
    expect(callsOf(rows).length).toBe(7);
    expect(callOf(rows, "order_parts").status).toBe("completed");
  });

  it("shows events of kinds that it does not know", () => {
    const rows = rowsOf([{ ...about, seq: 1, kind: "future.thing", data: { a: 1 } }]);
    expect(rows).toMatchObject([{ kind: "notice", isQuiet: false, seq: 1 }]);
  });

  it("shows calls in doubt, and a retry", () => {
    const tool = { name: "pay", source: "host", place: "local" };
    const call = { ...about, data: { call_id: "c", tool } };
    const rows = rowsOf([
      { ...call, seq: 1, kind: "call.started" },
      { ...call, seq: 2, kind: "call.in_doubt" },
      { ...about, seq: 3, kind: "model.retried", data: { turn: 1, attempt: 1, reason: "busy" } },
    ]);
    expect(callOf(rows, "pay").status).toBe("in_doubt");
    expect(rows.at(-1)).toMatchObject({ kind: "notice", isQuiet: false });
  });

  it("moves a call below its parent once that is known", () => {
    const rows = rowsOf([
      { ...about, seq: 1, kind: "call.started", data: { call_id: "a", tool: { name: "outer" } } },
      { ...about, seq: 2, kind: "call.started", data: { call_id: "b", tool: { name: "inner" } } },
      {
        ...about,
        seq: 3,
        kind: "tool.invoked",
        data: { call_id: "b", name: "inner", success: true, parent_call_id: "a" },
      },
    ]);
    expect(rows.map((row) => [row.key, row.depth])).toEqual([
      ["call:a", 0],
      ["within:a", 1],
    ]);
  });

  it("shows that payloads were deleted", () => {
    const rows = rowsOf([
      { ...about, seq: 1, kind: "prompt.started", data: { is_deleted: true } },
      { ...about, seq: 2, kind: "tool.invoked", data: { is_deleted: true, call_id: "c" } },
    ]);
    expect(rows.map((row) => row.kind)).toEqual(["prompt", "calls"]);
  });

  it("takes 20,000 events in well under a second", () => {
    const many: Envelope[] = [];
    for (let seq = 1; seq <= 20_000; seq += 2) {
      const data = { call_id: `c${seq}`, tool: { name: "t" }, name: "t", success: true };
      many.push({ ...about, seq, kind: "call.started", data });
      many.push({ ...about, seq: seq + 1, kind: "tool.invoked", data });
    }
    const begin = performance.now();
    expect(rowsOf(many).length).toBe(10_000);
    expect(performance.now() - begin).toBeLessThan(1_000);
  });
});
