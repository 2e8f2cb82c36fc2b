import { expect, test } from "vitest";

import { readEnvelope, withEvents, type Envelope } from "@/pages/chat/event_log";

const passing = (kind: string, text = "", step = 1): Envelope => ({
  session_id: "s",
  seq: 3,
  kind,
  at: 0,
  data: { turn: 1, step, text },
  is_kept: false,
});
const recorded = (kind: string): Envelope => ({ ...passing(kind), is_kept: true });

test("the pieces of a reply are let go when the whole is there", () => {
  const events = withEvents([], [
    passing("model.asked"),
    passing("model.text_delta", "a"),
    passing("model.text_delta", "of the next step", 2),
    recorded("model.responded"),
  ]);
  expect(events.map((event) => event.kind)).toEqual(["model.text_delta", "model.responded"]);
});

test("a partial reply takes the place of the pieces before it, and pieces follow it", () => {
  const events = withEvents([passing("model.text_delta", "lo")], [
    passing("model.partial_reply", "lost and "),
    passing("model.text_delta", "found"),
  ]);
  expect(events.map((event) => event.data["text"])).toEqual(["lost and ", "found"]);
});

test("what is no event is read as none", () => {
  expect(readEnvelope("{")).toBeNull();
  expect(readEnvelope('{"seq": 1}')).toBeNull();
  expect(readEnvelope('{"seq": 1, "kind": "x", "data": {}}')?.kind).toBe("x");
});
