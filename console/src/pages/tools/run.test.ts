import { describe, expect, it } from "vitest";

import { newCallId, nextState, type CallResult, type RunState } from "./run";

const place = { sessionId: "s", callId: "c", tool: "add" };
const begun = nextState({ phase: "opening" }, { type: "begin", place, at: 10 });

const event = (kind: string, data: object) =>
  ({ type: "event", event: { id: null, kind, data: JSON.stringify({ data }) } }) as const;

const result = (facts: Partial<CallResult>) =>
  ({ call_id: "c", tool: "add", text: "", ...facts }) as CallResult;

describe("a run", () => {
  it("shows the latest progress and all output of its own call", () => {
    let state: RunState = begun;
    state = nextState(state, event("tool.progress", { call_id: "c", current: 1, total: 3 }));
    state = nextState(state, event("tool.progress", { call_id: "other", current: 9 }));
    state = nextState(state, event("tool.output", { call_id: "c", chunk: "one " }));
    state = nextState(state, event("tool.output", { call_id: "c", chunk: "two" }));
    expect(state).toMatchObject({
      progress: { current: 1, total: 3, message: null },
      output: "one two",
    });
  });

  it("waits when somebody has to approve, and runs when it is taken up", () => {
    const answer = result({ status: "waiting", approval_id: "apr_1" });
    const waiting = nextState(begun, { type: "result", result: answer, at: 11 });
    expect(waiting).toEqual({ phase: "waiting", place, approvalId: "apr_1" });
    expect(nextState(waiting, { type: "begin", place, at: 20 }).phase).toBe("running");
  });

  it("ends with the result and how long it took", () => {
    const answer = result({ status: "completed" });
    const ended = nextState(begun, { type: "result", result: answer, at: 12.5 });
    expect(ended).toEqual({ phase: "ended", place, result: answer, seconds: 2.5 });
  });

  it("says that the connection was lost until something comes", () => {
    const lost = nextState(begun, { type: "lost" });
    expect(lost).toMatchObject({ isLost: true });
    const next = event("tool.output", { call_id: "c", chunk: "x" });
    expect(nextState(lost, next)).toMatchObject({ isLost: false });
  });

  it("shows a question until it is answered or closed", () => {
    const asked = nextState(
      begun,
      event("question.asked", { call_id: "c", question: { message: "Which one?" } }),
    );
    expect(asked).toMatchObject({ question: "Which one?" });
    expect(nextState(asked, event("question.answered", { call_id: "c" }))).toMatchObject({
      question: null,
    });
  });

  it("ignores what comes after the end", () => {
    const ended = nextState(begun, {
      type: "result",
      result: result({ status: "failed" }),
      at: 11,
    });
    expect(nextState(ended, event("tool.output", { call_id: "c", chunk: "late" }))).toBe(ended);
  });
});

it("makes ids that differ", () => {
  expect(newCallId()).toMatch(/^console-[0-9a-f]{32}$/);
  expect(newCallId()).not.toBe(newCallId());
});
