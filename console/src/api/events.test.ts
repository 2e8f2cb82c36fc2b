import { describe, expect, it } from "vitest";

import { backOff, EventParser } from "@/api/events";

describe("EventParser", () => {
  it("reads events however the text is cut", () => {
    const text =
      ': open\n\nid: 7\nevent: tool.invoked\ndata: {"a":1}\n\n: alive\n\nevent: x\ndata: y\n\n';
    for (let size = 1; size < text.length; size++) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < text.length; at += size) {
        events.push(...parser.push(text.slice(at, at + size)));
      }
      expect(events).toEqual([
        { id: "7", kind: "tool.invoked", data: '{"a":1}' },
        { id: null, kind: "x", data: "y" },
      ]);
    }
  });

  it("holds back an event that has not ended", () => {
    const parser = new EventParser();
    expect(parser.push("event: a\ndata: 1\n")).toEqual([]);
    expect(parser.push("\n")).toEqual([{ id: null, kind: "a", data: "1" }]);
  });
});

it("waits longer after each failure, and never longer than ten seconds", () => {
  expect([1, 2, 3, 20].map(backOff)).toEqual([250, 500, 1000, 10_000]);
});
