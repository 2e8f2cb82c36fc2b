import { describe, expect, it } from "vitest";

import { argumentViews, memberChanges, same, viewOf } from "./view";

describe("viewOf", () => {
  it("takes code for code, by name or by content", () => {
    expect(viewOf("ls -la | wc", "command")).toMatchObject({ kind: "code", language: "shell" });
    expect(viewOf("SELECT a FROM b", "query")).toMatchObject({ kind: "code", language: "sql" });
    expect(viewOf("import os\nprint(os)", "text")).toMatchObject({
      kind: "code",
      language: "python",
    });
    expect(viewOf('{"a": 1}', "body")).toMatchObject({ kind: "code", language: "json" });
    expect(viewOf("x", "source", { contentMediaType: "text/x-python" })).toMatchObject({
      kind: "code",
      language: "python",
    });
  });

  it("takes a search, a country and a sentence for what they are", () => {
    expect(viewOf("weather from Rome", "query").kind).toBe("scalar");
    expect(viewOf("DE", "code").kind).toBe("scalar");
    expect(viewOf("Select something nice from the menu.", "text").kind).toBe("scalar");
    expect(viewOf("one\ntwo", "note").kind).toBe("text");
  });

  it("takes lists of like objects for tables, others for trees", () => {
    expect(viewOf([{ a: 1, b: 2 }, { a: 3 }])).toMatchObject({
      kind: "table",
      columns: ["a", "b"],
    });
    expect(viewOf([{ a: 1 }, { b: 1 }, { c: 1 }]).kind).toBe("json");
    expect(viewOf([1, 2]).kind).toBe("json");
    expect(viewOf([]).kind).toBe("json");
    expect(viewOf(null)).toEqual({ kind: "scalar", text: "null" });
  });

  it("shows a patch as one", () => {
    const patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";
    expect(viewOf(patch, "input").kind).toBe("patch");
  });
});

describe("argumentViews", () => {
  it("follows the schema, and keeps what it does not name", () => {
    const schema = { properties: { b: { description: "Second" }, a: {} } };
    const views = argumentViews({ x: 0, a: 1, b: 2 }, schema);
    expect(views.map((view) => view.kind === "member" && view.name)).toEqual(["b", "a", "x"]);
    expect(views[0]).toMatchObject({ about: "Second" });
  });

  it("shows a text and its replacement as one change", () => {
    const views = argumentViews({ path: "a.py", new_string: "b\nd", old_string: "b\nc" });
    expect(views).toEqual([
      { kind: "member", name: "path", view: { kind: "scalar", text: "a.py" }, about: undefined },
      { kind: "change", names: ["old_string", "new_string"], before: "b\nc", after: "b\nd" },
    ]);
  });
});

describe("memberChanges", () => {
  it("names what was added, removed and changed", () => {
    const changes = memberChanges({ a: 1, b: [1], c: 3 }, { a: 2, b: [1], d: 4 });
    expect(changes).toEqual([
      { name: "a", before: 1, after: 2 },
      { name: "c", before: 3, after: undefined },
      { name: "d", before: undefined, after: 4 },
    ]);
  });

  it("does not look at the order of members", () => {
    expect(same({ a: 1, b: { c: [1, 2] } }, { b: { c: [1, 2] }, a: 1 })).toBe(true);
    expect(same({ a: 1 }, { b: 1 })).toBe(false);
    expect(same([1], { 0: 1 })).toBe(false);
  });
});
