import { describe, expect, it } from "vitest";

import type { Approval } from "@/api/inbox";
import { closedText } from "@/pages/inbox/decision";
import { firstChoice, kindsFor, termsOf } from "@/pages/inbox/grant";
import { askerOf, intentOf } from "@/pages/inbox/intent";

const APPROVAL = {
  approval_id: "apr_1",
  tool: "refund",
  rule: "refunds",
  arguments: { order: "A-17", amount: 30, lines: [1, 2] },
  state: "pending",
} as unknown as Approval;

describe("intentOf", () => {
  it("says in one sentence what the call would do", () => {
    expect(intentOf(APPROVAL)).toBe(
      "refund wants to run with order A-17, amount 30, and lines 2 items",
    );
    expect(intentOf({ ...APPROVAL, arguments: {} })).toBe("refund wants to run");
  });

  it("shortens what is long, and counts what it leaves out", () => {
    const long = intentOf({
      ...APPROVAL,
      arguments: { a: "x".repeat(99), b: 1, c: 2, d: 3, e: 4 },
    });
    expect(long).toContain("…");
    expect(long).toContain("2 more");
  });

  it("warns of a call that may have run", () => {
    expect(intentOf({ ...APPROVAL, rule: "in_doubt" })).toContain("may have run already");
  });
});

it("says on whose behalf a model asks", () => {
  const caller = { principal: "bob", groups: [], transport: null, is_model: true };
  expect(askerOf(caller)).toBe("a model, on behalf of bob");
  expect(askerOf({ ...caller, principal: null, is_model: false })).toBe("the program itself");
});

describe("closedText", () => {
  it("tells who was faster, that it expired, or that the tool changed", () => {
    const closed = (decision: Approval["decision"]) =>
      closedText({ ...APPROVAL, decision, decided_by: "carol" });
    expect(closed("deny")).toContain("carol");
    expect(closed("expire")).toContain("expired");
    expect(closed(null)).toContain("changed");
  });
});

describe("grants", () => {
  it("cover calls like this one for a day, unless somebody chooses more", () => {
    expect(termsOf(firstChoice(APPROVAL))).toEqual({
      scope: "session",
      arguments: { "/order": "A-17", "/amount": 30 },
      uses: null,
      expires_in_seconds: 86_400,
      unlimited: false,
    });
  });

  it("have patterns that fit the value", () => {
    expect(kindsFor("x")).toContain("glob");
    expect(kindsFor(3)).toContain("max");
    expect(kindsFor([1])).toEqual(["any"]);
  });

  it("are not complete while a number is none", () => {
    const choice = firstChoice(APPROVAL);
    expect(termsOf({ ...choice, uses: "many" })).toBeNull();
    const open = choice.patterns.map((each) => ({ ...each, kind: "max" as const, text: "" }));
    expect(termsOf({ ...choice, patterns: open })).toBeNull();
  });
});
