import { describe, expect, it } from "vitest";

import { formSchema, uiSchema } from "@/parts/form/schema";
import { errorSchemaOf, faultsOf, validator } from "@/parts/form/validator";

const ORDER = {
  type: "object",
  properties: {
    part: { enum: ["bolts", "saws"] },
    count: { type: "integer", minimum: 1 },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null, title: "Note" },
    lines: { type: "array", items: { $ref: "#/$defs/line" } },
  },
  required: ["part", "count"],
  additionalProperties: false,
  $defs: { line: { type: "object", properties: { a: { type: "string" } }, required: ["a"] } },
};

describe("faultsOf", () => {
  it("finds nothing in a value that fits", () => {
    expect(faultsOf(ORDER, { part: "saws", count: 2, lines: [{ a: "x" }] })).toEqual([]);
  });

  it("names the field of each fault, also of one that is missing", () => {
    const pointers = faultsOf(ORDER, { part: "x", lines: [{ a: 1 }, {}] }).map((f) => f.pointer);
    expect(pointers.sort()).toEqual(["/count", "/lines/0/a", "/lines/1/a", "/part"]);
  });

  it("misses a field that was emptied", () => {
    const faults = faultsOf(ORDER, { part: "saws", count: undefined });
    expect(faults.map((fault) => fault.pointer)).toEqual(["/count"]);
  });

  it("leaves a schema that it cannot use to the server", () => {
    expect(faultsOf({ $ref: "#/$defs/nothing" }, 1)).toEqual([]);
  });
});

it("puts the faults of the server to their fields", () => {
  expect(errorSchemaOf([{ pointer: "/lines/0/a~1b", message: "no" }])).toEqual({
    lines: { "0": { "a/b": { __errors: ["no"] } } },
  });
});

it("resolves references of the whole schema in a part of it", () => {
  expect(validator.isValid({ $ref: "#/$defs/line" }, { a: "x" }, ORDER as object)).toBe(true);
  expect(validator.isValid({ $ref: "#/$defs/line" }, {}, ORDER as object)).toBe(false);
});

it("shows what may be null as a field that may be empty", () => {
  const shown = formSchema({ title: "Order", ...ORDER });
  expect(shown.title).toBeUndefined();
  expect(shown.properties?.["note"]).toEqual({ type: "string", title: "Note" });
});

it("gives long texts room, and hides secrets", () => {
  const schema = formSchema({ type: "object", properties: { a: { type: "string" } } });
  expect(uiSchema(schema, { a: "x\ny" })["a"]["ui:widget"]).toBe("textarea");
  expect(uiSchema(schema, { a: "x" }, true)["a"]["ui:widget"]).toBe("password");
});
