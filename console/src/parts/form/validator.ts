import { Validator, type OutputUnit, type Schema } from "@cfworker/json-schema";
import type { ErrorSchema, RJSFSchema, RJSFValidationError, ValidatorType } from "@rjsf/utils";

import { messages } from "@/messages";

/** One thing that is wrong in a value, and where: a JSON pointer. */
export interface Fault {
  pointer: string;
  message: string;
}

/** What does not fit a JSON Schema. A schema that cannot be used finds nothing: the server checks. */
export function faultsOf(schema: object, value: unknown): Fault[] {
  let units: OutputUnit[];
  try {
    // Without code made from the schema: the page may not run any.
    units = new Validator(schema as Schema, "2020-12", false).validate(asJson(value)).errors;
  } catch {
    return [];
  }
  const faults = units.map(faultOf);
  return faults.filter(
    (fault, index) =>
      // A fault of an object that only says that a fault is inside of it is left out.
      !(isWrapper(units[index]) && faults.some((each) => isInside(each.pointer, fault.pointer))) &&
      faults.findIndex((each) => each.pointer === fault.pointer) === index,
  );
}

/** A value as it is sent: a field that was emptied is left out of it. */
function asJson(value: unknown): unknown {
  return value === undefined ? null : (JSON.parse(JSON.stringify(value)) as unknown);
}

const WRAPPERS = new Set([
  "properties",
  "items",
  "prefixItems",
  "additionalProperties",
  "$ref",
  "allOf",
  "anyOf",
  "oneOf",
]);

function isWrapper(unit: OutputUnit | undefined): boolean {
  return unit !== undefined && WRAPPERS.has(unit.keyword);
}

function isInside(pointer: string, outer: string): boolean {
  return pointer.startsWith(`${outer}/`);
}

function faultOf(unit: OutputUnit): Fault {
  const pointer = decodeURIComponent(unit.instanceLocation.replace(/^#/, ""));
  if (unit.keyword === "required") {
    const name = /"(.*)"/.exec(unit.error)?.[1] ?? "";
    return { pointer: `${pointer}/${escaped(name)}`, message: messages.form.required };
  }
  return { pointer, message: unit.error };
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The members of a JSON pointer. */
export function pathOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((member) => member.replaceAll("~1", "/").replaceAll("~0", "~"));
}

interface FaultTree {
  __errors?: string[];
  [member: string]: FaultTree | string[] | undefined;
}

/** Faults as the tree that the form marks its fields by. */
export function errorSchemaOf(faults: readonly Fault[]): ErrorSchema {
  const root: FaultTree = {};
  for (const fault of faults) {
    let at = root;
    for (const member of pathOf(fault.pointer)) {
      const next = at[member];
      const inner: FaultTree = next === undefined || Array.isArray(next) ? {} : next;
      at[member] = inner;
      at = inner;
    }
    at.__errors = [...(at.__errors ?? []), fault.message];
  }
  return root as ErrorSchema;
}

function rjsfErrorOf(fault: Fault): RJSFValidationError {
  const property = pathOf(fault.pointer)
    .map((member) => `.${member}`)
    .join("");
  return { property, message: fault.message, stack: `${fault.pointer} ${fault.message}` };
}

/** The validator of the forms. It evaluates no code, as the page's policy demands. */
export const validator: ValidatorType = {
  validateFormData(value, schema) {
    const faults = faultsOf(schema, value);
    return { errors: faults.map(rjsfErrorOf), errorSchema: errorSchemaOf(faults) };
  },
  isValid(schema, value, root: RJSFSchema) {
    const { $defs, definitions } = root;
    const whole = { ...schema, ...($defs && { $defs }), ...(definitions && { definitions }) };
    return faultsOf(whole, value).length === 0;
  },
  rawValidation<Result>(schema: RJSFSchema, value?: unknown) {
    return { errors: faultsOf(schema, value) as Result[] };
  },
};
