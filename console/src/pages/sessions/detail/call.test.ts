import { describe, expect, it } from "vitest";

import { callIdOf, callOf, type SessionEvent } from "./call";
import recorded from "./recorded/events.json";

const EVENTS = recorded as readonly SessionEvent[];

function theCall() {
  const id = EVENTS.map(callIdOf).find((each) => each !== null) ?? "";
  return callOf(id, EVENTS);
}

describe("callOf", () => {
  it("has what was proposed, shown, edited and executed", () => {
    const call = theCall();
    expect(call.tool).toBe("order_parts");
    expect(call.versions).toEqual([
      { kind: "proposed", value: { part: "saws", count: 50 }, by: null },
      { kind: "shown", value: { part: "saws", count: 50, note: "" }, by: null },
      { kind: "edited", value: { part: "saws", count: 20, note: "fewer" }, by: "carol" },
      { kind: "executed", value: { part: "saws", count: 20, note: "fewer" }, by: null },
    ]);
    expect(call.schema).toMatchObject({ type: "object" });
  });

  it("takes what the approver saw for the proposal when nobody knows what the model wrote", () => {
    const known = EVENTS.filter((event) => event.kind !== "model.responded");
    expect(callOf(theCall().callId, known).versions.map((version) => version.kind)).toEqual([
      "proposed",
      "edited",
      "executed",
    ]);
  });

  it("does not say that a denied call was executed", () => {
    const { callId } = theCall();
    const ended = EVENTS.find((event) => event.kind === "tool.invoked");
    const denied = EVENTS.filter((event) => !["call.started", "tool.invoked"].includes(event.kind));
    const end = { seq: 99, at: 0, kind: "tool.invoked", data: { ...ended?.data, success: false } };
    const kinds = callOf(callId, [...denied, end]).versions.map((version) => version.kind);
    expect(kinds).not.toContain("executed");
  });

  it("reads calls in the forms of other providers", () => {
    const said = (items: unknown[]): SessionEvent => ({
      seq: 1,
      at: 0,
      kind: "model.responded",
      data: { items },
    });
    const inContent = [
      { role: "assistant", content: [{ type: "tool_use", id: "c", input: { a: 1 } }] },
    ];
    const inParts = [{ parts: [{ tool_call_id: "c", args: '{"a": 1}' }] }];
    for (const items of [inContent, inParts]) {
      expect(callOf("c", [said(items)]).versions[0]?.value).toEqual({ a: 1 });
    }
    expect(callOf("c", [said([{ call_id: "c", input: "free text" }])]).versions[0]?.value).toBe(
      "free text",
    );
  });
});
