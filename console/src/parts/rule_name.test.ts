import { expect, it } from "vitest";

import { reservedRule, ruleName } from "@/parts/rule_name";

it("names a rule as its file does, and says in words that none decided", () => {
  expect(ruleName("payments")).toBe("payments");
  expect(ruleName("unmatched")).toBe("no rule matches");
  expect(reservedRule("toString")).toBeUndefined();
});
