import { describe, expect, it } from "vitest";

import {
  bucketOf,
  callFilters,
  fromLocalInput,
  localInput,
  readSearch,
  spanOf,
} from "@/pages/activity/filters";

describe("the filters in the address", () => {
  it("keeps what is understood and leaves the rest out", () => {
    expect(
      readSearch({
        range: "24h",
        status: "failed",
        principal: " bob ",
        tool: 42,
        decision: "maybe",
        min_cost: -1,
        from: "soon",
        other: "x",
      }),
    ).toEqual({ range: "24h", status: "failed", principal: "bob", tool: "42" });
  });

  it("asks for the last week unless told otherwise", () => {
    expect(callFilters({})).toEqual({ since: "7d" });
    expect(callFilters({ range: "1h", tool: "git_*" })).toEqual({ since: "1h", tool: "git_*" });
  });

  it("sends chosen times in the place of a range", () => {
    const from = "2026-11-01T00:00:00.000Z";
    const to = "2026-11-02T00:00:00.000Z";
    expect(callFilters({ range: "1h", from, to })).toEqual({ since: from, until: to });
    expect(bucketOf(spanOf({ from, to }, 0))).toBe("hour");
  });

  it("has finer bars for shorter times", () => {
    expect(bucketOf(spanOf({ range: "1h" }, 1e9))).toBe("minute");
    expect(bucketOf(spanOf({ range: "24h" }, 1e9))).toBe("hour");
    expect(bucketOf(spanOf({}, 1e9))).toBe("day");
  });

  it("never has an end before its beginning", () => {
    const span = spanOf({ from: "2026-11-05T00:00Z", to: "2026-11-01T00:00Z" }, 0);
    expect(span.since).toBeLessThanOrEqual(span.until);
  });

  it("reads back the time that an input of the page shows", () => {
    const iso = "2026-11-17T08:30:00.000Z";
    expect(fromLocalInput(localInput(iso))).toBe(iso);
    expect(fromLocalInput("")).toBeUndefined();
  });
});
