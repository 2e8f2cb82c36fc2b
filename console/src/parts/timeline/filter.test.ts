import { describe, expect, it } from "vitest";

import type { Envelope } from "@/parts/timeline/envelope";
import { choicesOf, filterRows, findRows, stopsOf } from "@/parts/timeline/filter";
import recorded from "@/parts/timeline/recorded/workshop.json";
import { Turns } from "@/parts/timeline/turns";

const turns = new Turns();
turns.push(recorded as unknown as Envelope[]);
const rows = turns.list();

const shape = (some: readonly { kind: string }[]) => some.map((row) => row.kind).join(" ");

describe("filters of a transcript", () => {
  it("leave out housekeeping unless it is wanted", () => {
    expect(filterRows(rows, {}).some((row) => row.kind === "notice")).toBe(false);
    expect(filterRows(rows, { all: true }).length).toBe(rows.length);
  });

  it("show the calls of a tool with the prompts that they are part of", () => {
    const shown = filterRows(rows, { tool: "order_parts" });
    expect(shape(shown)).toBe("prompt calls prompt calls");
  });

  it("show the chosen event whatever they say", () => {
    const chosen = rows.find((row) => row.kind === "notice")?.key;
    expect(filterRows(rows, { chosen }).map((row) => row.key)).toContain(chosen);
    expect(shape(filterRows(rows, { status: "failed", chosen }))).toBe("notice prompt calls");
  });

  it("tell failed calls from denied ones", () => {
    expect(shape(filterRows(rows, { status: "failed" }))).toBe("prompt calls");
    expect(shape(filterRows(rows, { status: "denied" }))).toBe("prompt calls");
    expect(filterRows(rows, { place: "sandbox" })).toEqual([]);
  });

  it("offer the tools and places that there are", () => {
    expect(choicesOf(rows).tools).toContain("translate");
    expect(choicesOf(rows).places).toEqual(["local"]);
  });
});

describe("finding", () => {
  it("looks into prompts, texts, arguments and results", () => {
    expect(findRows(rows, "COUNT THE")).toHaveLength(1);
    expect(findRows(rows, "bolts")).toHaveLength(1);
    expect(findRows(rows, "jammed")).toHaveLength(1);
    expect(findRows(rows, " ")).toEqual([]);
  });
});

describe("the stops of the arrow keys", () => {
  it("are all rows, and each call of a row", () => {
    const stops = stopsOf(filterRows(rows, {}));
    expect(stops.filter((stop) => stop.callId !== null)).toHaveLength(7);
    for (const stop of stops) expect(turns.rowOf(stop.seq)).toBe(stop.rowKey);
    for (const stop of stops) expect(turns.callOf(stop.seq)).toBe(stop.callId);
  });
});
