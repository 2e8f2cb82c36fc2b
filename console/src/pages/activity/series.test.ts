import { describe, expect, it } from "vitest";

import { pointsOf, topOf, totalsOf, type UsageSum } from "@/pages/activity/series";

function sum(key: string | null, facts: Partial<UsageSum> = {}): UsageSum {
  return {
    key,
    calls: 0,
    failures: 0,
    waited_seconds: 0,
    requests: 0,
    cost: null,
    unpriced: 0,
    ...facts,
  };
}

describe("the bars of a chart", () => {
  it("has one for every hour, also for those without calls", () => {
    const since = Date.parse("2026-11-17T08:20Z") / 1000;
    const points = pointsOf(
      [sum("2026-11-17T09:00Z", { calls: 3, failures: 1, waited_seconds: 2, cost: 0.5 })],
      { since, until: since + 2 * 3_600 },
      "hour",
    );
    expect(points.map((point) => [point.succeeded, point.failures])).toEqual([
      [0, 0],
      [2, 1],
      [0, 0],
    ]);
    expect(points[1]).toMatchObject({ waited: 2, cost: 0.5 });
  });

  it("does not make thousands of empty bars for a long time", () => {
    const points = pointsOf([sum("2020-01-01", { calls: 1 })], { since: 0, until: 2e9 }, "day");
    expect(points).toHaveLength(1);
  });
});

describe("the totals", () => {
  it("adds up, and an unknown cost is not nothing", () => {
    expect(totalsOf([sum("a", { calls: 2 }), sum("b", { calls: 3, failures: 1 })])).toMatchObject({
      calls: 5,
      failures: 1,
      cost: null,
    });
    expect(totalsOf([sum("a", { cost: 0.25 }), sum("b", { unpriced: 1 })])).toMatchObject({
      cost: 0.25,
      unpriced: 1,
    });
  });

  it("names those with the most calls, and none that has no name", () => {
    const sums = [sum("few", { calls: 1 }), sum(null, { calls: 9 }), sum("many", { calls: 5 })];
    expect(topOf(sums, 1).map((each) => each.key)).toEqual(["many"]);
  });
});
