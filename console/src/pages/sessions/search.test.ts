import { describe, expect, it } from "vitest";

import { readSessionSearch, readSessionsSearch, withFilter } from "@/pages/sessions/search";

describe("the filters in an address", () => {
  it("are read as they are known", () => {
    const raw = { text: "saws", state: "open", waiting: true, since: "7d", tool: "o*", extra: 1 };
    expect(readSessionsSearch(raw)).toEqual({
      text: "saws",
      state: "open",
      waiting: true,
      since: "7d",
      tool: "o*",
    });
    expect(readSessionsSearch({ state: "odd", since: 3, waiting: "no", text: " " })).toEqual({});
    expect(readSessionsSearch({ text: 42 })).toEqual({ text: "42" });
  });

  it("name an event by its number", () => {
    expect(readSessionSearch({ event: 12, status: "failed" })).toEqual({
      event: 12,
      status: "failed",
    });
    expect(readSessionSearch({ event: "12" })).toEqual({ event: 12 });
    expect(readSessionSearch({ event: -1, status: "odd" })).toEqual({});
  });

  it("leave out what is empty", () => {
    expect(withFilter({ text: "a", tool: "b" }, "text", "")).toEqual({ tool: "b" });
    expect(withFilter({ tool: "b" }, "tool", "c")).toEqual({ tool: "c" });
  });
});
