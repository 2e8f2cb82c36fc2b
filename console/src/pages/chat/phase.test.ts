import { expect, test } from "vitest";

import { costOf, openApprovals, phaseOf, type PhaseEvent } from "@/pages/chat/phase";

const started = (seq: number, turn = 1): PhaseEvent => ({
  seq,
  kind: "prompt.started",
  data: { turn, prompt_name: "session:prompt", parent_call_id: null },
});
const asks = (seq: number, id = "apr_1"): PhaseEvent => ({
  seq,
  kind: "approval.requested",
  data: { request: { approval_id: id, call_id: "c1", turn: 1, caller: { is_model: true } } },
});
const event = (seq: number, kind: string, data: Record<string, unknown> = {}): PhaseEvent => ({
  seq,
  kind,
  data: { turn: 1, ...data },
});
const facts = (last_seq: number, is_busy: boolean, has_open_prompt = true) => ({
  last_seq,
  is_busy,
  has_open_prompt,
});

test("a session without a prompt is idle", () => {
  expect(phaseOf([], facts(1, false, false))).toEqual({ name: "idle" });
});

test("a prompt that began after the page looked runs, whatever the server said before", () => {
  expect(phaseOf([started(5)], facts(4, false, false))).toEqual({ name: "running" });
  expect(phaseOf([started(5)], facts(5, true))).toEqual({ name: "running" });
});

test("a prompt that nobody works on was cut off, and one that waits can be taken up", () => {
  expect(phaseOf([started(5)], facts(9, false))).toEqual({ name: "cut_off" });
  expect(phaseOf([started(5), asks(6)], facts(9, false))).toEqual({
    name: "waiting",
    isHeld: false,
  });
  expect(phaseOf([started(5), asks(6)], facts(9, true))).toEqual({ name: "waiting", isHeld: true });
});

test("a call that was decided while nobody worked on the prompt goes on too", () => {
  const decided = event(7, "approval.decided", { decided: { approval_id: "apr_1" } });
  expect(phaseOf([started(5), asks(6), decided], facts(9, false))).toEqual({
    name: "waiting",
    isHeld: false,
  });
});

test("an answer, a failure and a cancelled prompt are ends", () => {
  expect(phaseOf([started(1), event(2, "prompt.answered")], facts(9, false, false)).name).toBe(
    "idle",
  );
  const failed = event(2, "prompt.stopped", { outcome: "failed", error: "no money" });
  expect(phaseOf([started(1), failed], facts(9, false))).toEqual({
    name: "failed",
    error: "no money",
  });
  const cancelled = event(2, "prompt.stopped", { outcome: "cancelled", principal: "ada" });
  expect(phaseOf([started(1), cancelled], null)).toEqual({ name: "cancelled", by: "ada" });
  const resumed = event(3, "prompt.resumed");
  expect(phaseOf([started(1), failed, resumed], facts(2, false)).name).toBe("running");
});

test("prompts of tools and summaries are not the person's", () => {
  const inner: PhaseEvent = {
    seq: 9,
    kind: "prompt.started",
    data: { turn: 2, prompt_name: "x", parent_call_id: "c1" },
  };
  expect(phaseOf([started(1), event(2, "prompt.answered"), inner], facts(9, true)).name).toBe(
    "idle",
  );
});

test("an approval is open until it is decided, replaced, or its call is over", () => {
  expect(openApprovals([asks(1)], 1)).toEqual(["apr_1"]);
  const superseded = event(2, "approval.superseded", { approval_id: "apr_1" });
  expect(openApprovals([asks(1), superseded, asks(3, "apr_2")], 1)).toEqual(["apr_2"]);
  expect(openApprovals([asks(1), event(2, "tool.invoked", { call_id: "c1" })], 1)).toEqual([]);
});

test("the cost of a turn is the sum of its requests; what has no price is said", () => {
  const reply = (cost: unknown, turn = 1): PhaseEvent => ({
    seq: 1,
    kind: "model.responded",
    data: { turn, usage: { input_tokens: 10, output_tokens: 2 }, cost },
  });
  const priced = reply({ parts: [{ nanos: 2_000_000_000 }] });
  expect(costOf([priced, priced, reply(null, 2)], 1)).toEqual({
    requests: 2,
    inputTokens: 20,
    outputTokens: 4,
    cost: 4,
    isPartial: false,
  });
  expect(costOf([priced, reply(null)], 1)?.isPartial).toBe(true);
  expect(costOf([reply(null)], 1)?.cost).toBeNull();
  expect(costOf([], 1)).toBeNull();
});
