import { describe, expect, it } from "vitest";

import { countsOf, lineOf, rangeOf, type PolicyNote } from "@/pages/policy/notes";

function note(facts: Partial<PolicyNote>): PolicyNote {
  return {
    level: "error",
    message: "wrong",
    line: 1,
    column: 1,
    end_column: 2,
    rule: null,
    ...facts,
  };
}

describe("the notes of a policy", () => {
  it("reads the line of an address", () => {
    expect(lineOf("#L12")).toBe(12);
    expect(lineOf("L3")).toBe(3);
    expect(lineOf("#rules")).toBeNull();
  });

  it("counts faults and warnings apart", () => {
    expect(countsOf([note({}), note({ level: "warning" }), note({})])).toEqual({
      faults: 2,
      warnings: 1,
    });
  });

  it("stays within its line, also when the text has become shorter", () => {
    const lineAt = (line: number) => (line === 2 ? { from: 10, to: 15 } : null);
    expect(rangeOf(note({ line: 2, column: 3, end_column: 99 }), lineAt)).toEqual({
      from: 12,
      to: 15,
    });
    expect(rangeOf(note({ line: 9, column: 3 }), lineAt)).toEqual({ from: 0, to: 0 });
  });
});
