import { describe, expect, it } from "vitest";

import { patternsInWords, patternWords } from "@/pages/grants/pattern_words";

describe("patterns in words", () => {
  it.each([
    ["/path", { glob: "src/**" }, "path is like src/**"],
    ["/count", { max: 10 }, "count is at most 10"],
    ["/count", { min: 0 }, "count is at least 0"],
    ["/count", { min: 1, max: 3 }, "count is from 1 to 3"],
    ["/name", { regex: "a+" }, "name matches /a+/"],
    ["/part", { one_of: ["saws", 2] }, 'part is one of "saws", 2'],
    ["/a/b~1c", "x", 'a › b/c is "x"'],
    ["/flag", null, "flag is null"],
    ["/path", { not: { glob: "*.env" } }, "not: path is like *.env"],
  ])("%s %j", (pointer, pattern, words) => {
    expect(patternWords(pointer, pattern)).toBe(words);
  });

  it("has one sentence for each argument", () => {
    expect(patternsInWords({ "/a": 1, "/b": { max: 2 } })).toEqual(["a is 1", "b is at most 2"]);
  });
});
