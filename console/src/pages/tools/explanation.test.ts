import { expect, it } from "vitest";

import { asArguments, groupsIn } from "./explanation";

it("reads groups with commas between them, and none as not given", () => {
  expect(groupsIn("finance, ops,,")).toEqual(["finance", "ops"]);
  expect(groupsIn("  ")).toBeUndefined();
});

it("makes a call with an object only", () => {
  expect(asArguments(undefined)).toEqual({});
  expect(asArguments({ a: 1 })).toEqual({ a: 1 });
  expect(asArguments([1])).toBeNull();
  expect(asArguments("text")).toBeNull();
});
