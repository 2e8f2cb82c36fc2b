import { describe, expect, it } from "vitest";

import { splitMarks, withMarks } from "./citation_marks";

describe("marks of citations", () => {
  it("stand after the citing place, counted in characters", () => {
    const marked = withMarks("👍 yes. No.", [{ span: [2, 6] }, { span: [7, 10] }, { span: null }]);
    expect(splitMarks(marked)).toEqual(["👍 yes.", 1, " No.", 2]);
  });

  it("keep their order at one place, and ignore places outside of the text", () => {
    const marked = withMarks("ab", [{ span: [0, 1] }, { span: [0, 1] }, { span: [0, 99] }]);
    expect(splitMarks(marked)).toEqual(["a", 1, 2, "b"]);
  });

  it("cannot be forged by the text", () => {
    expect(splitMarks(withMarks("x\ue0c17\ue0c2y", []))).toEqual(["x\ufffd7\ufffdy"]);
  });
});
