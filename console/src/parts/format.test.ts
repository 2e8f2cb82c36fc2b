import { expect, it } from "vitest";

import { duration, money, relativeTime, size } from "@/parts/format";

it("says how long something took in the largest fitting units", () => {
  expect([0.0421, 1.234, 12.44, 200, 7_500, 360_000].map(duration)).toEqual([
    "42 ms",
    "1.23 s",
    "12.4 s",
    "3 min 20 s",
    "2 h 5 min",
    "4 d 4 h",
  ]);
});

it("says when something was or will be", () => {
  expect(relativeTime(1000, 1000.4)).toBe("now");
  expect(relativeTime(1000, 1200)).toBe("3 min. ago");
  expect(relativeTime(8200, 1000)).toBe("in 2 hr.");
});

it("never calls an unknown cost free", () => {
  expect(money(null)).toBe("unknown");
  expect(money(0)).toBe("$0.00");
  expect(money(0.00012)).toBe("$0.00012");
});

it("says sizes", () => {
  expect([12, 1_500, 2_000_000].map(size)).toEqual(["12 B", "1.5 kB", "2.0 MB"]);
});
