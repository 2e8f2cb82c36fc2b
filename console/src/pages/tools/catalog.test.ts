import { describe, expect, it } from "vitest";

import { readToolsSearch, sinceOf, sortedBy } from "./addresses";
import { ruleLocation } from "./catalog";

describe("the address of the list of tools", () => {
  it("keeps what is understood and drops the rest", () => {
    const search = { search: "pay", place: "moon", order: "calls", descending: true, x: 1 };
    expect(readToolsSearch(search)).toEqual({ search: "pay", order: "calls", descending: true });
  });

  it("reads a search for a number as text", () => {
    expect(readToolsSearch({ search: 12 })).toEqual({ search: "12" });
  });

  it("begins with the largest numbers, and with A among names", () => {
    expect(sortedBy({}, "calls")).toEqual({ order: "calls", descending: true });
    expect(sortedBy({ order: "calls", descending: true }, "name")).toEqual({ order: "name" });
  });

  it("turns the order round at the second click", () => {
    expect(sortedBy({ order: "calls", descending: true }, "calls")).toEqual({ order: "calls" });
    expect(sortedBy({}, "name")).toEqual({ order: "name", descending: true });
  });
});

it("counts the calls of a week unless asked for another time", () => {
  expect(sinceOf(undefined)).toBe("7d");
  expect(sinceOf("all")).toBeUndefined();
});

it("names a rule by its file and line", () => {
  expect(ruleLocation({ file: "/srv/policy.yaml", line: 12 })).toBe("policy.yaml:12");
  expect(ruleLocation({ file: null, line: null })).toBeNull();
});
