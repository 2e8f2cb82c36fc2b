import { expect, test } from "vitest";

import { browserName, groupsOf, isExpired, tokenParameters } from "@/pages/people/people";

test("a form becomes the parameters of a token", () => {
  const draft = {
    name: " ci ",
    roles: ["caller" as const],
    groups: "ops, engineers ops",
    lifetime: "never" as const,
    mayApproveOwn: false,
  };
  expect(tokenParameters(draft)).toEqual({
    name: "ci",
    roles: ["caller"],
    groups: ["ops", "engineers"],
    lifetime_seconds: null,
    may_approve_own: false,
  });
  expect(tokenParameters({ ...draft, lifetime: "day" }).lifetime_seconds).toBe(86_400);
});

test("groups are names, each once", () => {
  expect(groupsOf("")).toEqual([]);
  expect(groupsOf(" a,b  a ")).toEqual(["a", "b"]);
});

test.each([
  [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    "Chrome, Linux",
  ],
  [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14.0; rv:130.0) Gecko/20100101 Firefox/130.0",
    "Firefox, macOS",
  ],
  ["curl/8.0", "curl/8.0"],
  ["", ""],
])("%s is shown as %s", (agent, expected) => {
  expect(browserName(agent)).toBe(expected);
});

test("a token ends at its expiry", () => {
  const token = {
    id: "x",
    name: "ci",
    roles: [],
    groups: [],
    created_at: 0,
    expires_at: 10 as number | null,
    may_approve_own: false,
  };
  expect(isExpired(token, 9)).toBe(false);
  expect(isExpired(token, 10)).toBe(true);
  expect(isExpired({ ...token, expires_at: null }, 1e12)).toBe(false);
});
