import type { RJSFSchema, UiSchema } from "@rjsf/utils";

const LONG = 60;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The schema as a form shows it: "this or null" is a field that may be left empty, and the title of
 * the whole is that of the dialog around it. Values are checked against the schema as it is.
 */
export function formSchema(schema: object): RJSFSchema {
  const rest = Object.entries(schema).filter(([key]) => key !== "title" && key !== "description");
  return plain(Object.fromEntries(rest)) as RJSFSchema;
}

function plain(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plain);
  if (!isObject(schema)) return schema;
  const { anyOf, default: standard, ...rest } = schema;
  const isDefaultKept = standard !== undefined && standard !== null;
  const options = Array.isArray(anyOf) ? anyOf.filter((each) => !isNull(each)) : [];
  if (Array.isArray(anyOf) && options.length === 1 && anyOf.length > 1) {
    return plain({ ...(options[0] as object), ...rest });
  }
  const members = Object.fromEntries(
    Object.entries({ ...rest, ...(anyOf === undefined ? {} : { anyOf }) }).map(([key, value]) => [
      key,
      key === "enum" || key === "const" ? value : plain(value),
    ]),
  );
  return isDefaultKept ? { ...members, default: standard } : members;
}

function isNull(schema: unknown): boolean {
  return isObject(schema) && schema["type"] === "null";
}

/** How the fields look: text of several lines has room for them, and secrets are not shown. */
export function uiSchema(schema: RJSFSchema, value: unknown, isSecret = false): UiSchema {
  const ui: UiSchema = {
    "ui:submitButtonOptions": { norender: true },
    ...fieldUi(schema, value, isSecret),
  };
  return ui;
}

function fieldUi(schema: RJSFSchema, value: unknown, isSecret: boolean): UiSchema {
  if (isObject(schema.properties)) {
    return Object.fromEntries(
      Object.entries(schema.properties).map(([name, member]) => [
        name,
        isObject(member)
          ? fieldUi(member, isObject(value) ? value[name] : undefined, isSecret)
          : {},
      ]),
    );
  }
  if (schema.type !== "string" || schema.enum !== undefined) return {};
  if (isSecret) return { "ui:widget": "password" };
  const isLong = typeof value === "string" && (value.length > LONG || value.includes("\n"));
  return isLong ? { "ui:widget": "textarea", "ui:options": { rows: rowsOf(value) } } : {};
}

function rowsOf(text: string): number {
  return Math.min(16, Math.max(3, text.split("\n").length + 1));
}
