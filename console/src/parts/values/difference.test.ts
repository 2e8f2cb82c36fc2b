import { describe, expect, it } from "vitest";

import { difference } from "./difference";

describe("difference", () => {
  it("shows what goes and comes, with some lines around", () => {
    const lines = difference("a\nb\nc\n", "a\nB\nc\n");
    expect(lines.map((line) => [line.kind, line.text]).slice(1)).toEqual([
      ["context", "a"],
      ["removed", "b"],
      ["added", "B"],
      ["context", "c"],
    ]);
  });

  it("is empty for equal texts", () => {
    expect(difference("a", "a")).toEqual([]);
  });
});
