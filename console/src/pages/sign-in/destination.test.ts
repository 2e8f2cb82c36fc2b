import { expect, test } from "vitest";

import { codeOf, destinationOf } from "@/pages/sign-in/destination";

const ORIGIN = "http://127.0.0.1:8420";

test.each([
  ["/inbox", "/inbox"],
  ["/sessions/s?event=3", "/sessions/s?event=3"],
  [undefined, "/"],
  ["https://evil.example/", "/"],
  ["//evil.example/inbox", "/"],
  ["/\\evil.example", "/"],
  ["/\t/evil.example", "/"],
  ["inbox", "/"],
  ["javascript:alert(1)", "/"],
  ["/sign-in?from=/sign-in", "/"],
])("the way on from %s is %s", (from, expected) => {
  expect(destinationOf(from, ORIGIN)).toBe(expected);
});

test("a code is read from the fragment alone", () => {
  expect(codeOf("#code=sc_1-_x")).toBe("sc_1-_x");
  expect(codeOf("code=sc_1")).toBe("sc_1");
  expect(codeOf("#code=")).toBeNull();
  expect(codeOf("")).toBeNull();
});
