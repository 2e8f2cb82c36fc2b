/** Which view fits a value: a diff, code, a table, or names with values. */

import { isPatch } from "./patch";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

export type Language = "javascript" | "json" | "python" | "shell" | "sql" | "yaml" | "text";

/** A JSON Schema, as far as views look at it. */
export interface SchemaLike {
  readonly type?: unknown;
  readonly title?: unknown;
  readonly description?: unknown;
  readonly contentMediaType?: unknown;
  readonly format?: unknown;
  readonly properties?: Readonly<Record<string, unknown>>;
}

export type View =
  | { readonly kind: "patch"; readonly text: string }
  | { readonly kind: "code"; readonly language: Language; readonly text: string }
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "table";
      readonly columns: readonly string[];
      readonly rows: readonly JsonObject[];
    }
  | { readonly kind: "scalar"; readonly text: string }
  | { readonly kind: "json"; readonly value: Json };

/** A part of the arguments with the view for it. `change` shows a text before and after. */
export type ArgumentView =
  | { readonly kind: "member"; readonly name: string; readonly view: View; readonly about?: string }
  | {
      readonly kind: "change";
      readonly names: readonly [string, string];
      readonly before: string;
      readonly after: string;
    };

const BY_NAME: Readonly<Record<string, Language>> = {
  bash: "shell",
  cmd: "shell",
  command: "shell",
  commands: "shell",
  code: "python",
  javascript: "javascript",
  js: "javascript",
  json: "json",
  py: "python",
  python: "python",
  query: "sql",
  script: "shell",
  shell: "shell",
  sh: "shell",
  sql: "sql",
  statement: "sql",
  yaml: "yaml",
};

const BY_MEDIA_TYPE: Readonly<Record<string, Language>> = {
  "application/javascript": "javascript",
  "application/json": "json",
  "application/sql": "sql",
  "application/x-sh": "shell",
  "application/yaml": "yaml",
  "text/javascript": "javascript",
  "text/x-python": "python",
  "text/x-sh": "shell",
};

const BEFORE_AFTER: readonly (readonly [string, string])[] = [
  ["old_string", "new_string"],
  ["old_str", "new_str"],
  ["old_text", "new_text"],
  ["old", "new"],
  ["before", "after"],
  ["search", "replace"],
];

const MOST_COLUMNS = 12;
const SQL =
  /^\s*(?:select|insert|update|delete|with|create|alter|drop|pragma|explain)\b[\s\S]*\b(?:from|into|set|table|view|index|as|select)\b/i;
const PYTHON = /^(?:import \w|from \w[\w.]* import |def \w+\(|class \w+[(:]|print\()/m;

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The view of one value, from its schema where that says what it is, otherwise from its content. */
export function viewOf(value: Json, name = "", schema: SchemaLike = {}): View {
  if (typeof value === "string") return textView(value, name, schema);
  if (value === null || typeof value !== "object") return { kind: "scalar", text: String(value) };
  if (isTable(value)) return tableView(value);
  return { kind: "json", value };
}

function textView(text: string, name: string, schema: SchemaLike): View {
  if (isPatch(text)) return { kind: "patch", text };
  const language = languageOf(text, name, schema);
  if (language !== null) return { kind: "code", language, text };
  return text.includes("\n") || text.length > 120
    ? { kind: "text", text }
    : { kind: "scalar", text };
}

function languageOf(text: string, name: string, schema: SchemaLike): Language | null {
  const written = typeof schema.contentMediaType === "string" ? schema.contentMediaType : "";
  const declared = BY_MEDIA_TYPE[written.toLowerCase()];
  if (declared !== undefined) return declared;
  const byName = BY_NAME[name.toLowerCase()];
  // `query` is a search more often than SQL, and `code` may be a word such as a country's.
  if (byName === "sql") return SQL.test(text) ? "sql" : null;
  if (name.toLowerCase() === "code") return /[\n(=;]/.test(text) ? codeLanguage(text) : null;
  if (byName === "json") return isJsonText(text) ? "json" : null;
  if (byName !== undefined) return byName;
  if (text.startsWith("#!")) return /python/.test(text.split("\n")[0] ?? "") ? "python" : "shell";
  if (text.includes("\n") && PYTHON.test(text)) return "python";
  if (SQL.test(text) && text.trimEnd().endsWith(";")) return "sql";
  return /^\s*[[{]/.test(text) && isJsonText(text) ? "json" : null;
}

function codeLanguage(text: string): Language {
  if (/^\s*(?:const|let|var|function|import .* from ['"])\b/m.test(text)) return "javascript";
  return SQL.test(text) ? "sql" : "python";
}

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function isTable(value: Json): value is readonly JsonObject[] {
  if (!Array.isArray(value) || value.length === 0) return false;
  const rows: readonly Json[] = value;
  if (!rows.every(isObject)) return false;
  const names = new Set(rows.flatMap((row) => Object.keys(row)));
  // Rows that share nothing are no table, and one that is too wide is read better as a tree.
  if (names.size === 0 || names.size > MOST_COLUMNS) return false;
  const filled = rows.reduce((count, row) => count + Object.keys(row).length, 0);
  return filled >= (rows.length * names.size) / 2;
}

function tableView(rows: readonly JsonObject[]): View {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return { kind: "table", columns, rows };
}

/** The views of arguments, in the order of the schema, then what the schema does not name. A text
 * with its replacement is one view: what changes.
 */
export function argumentViews(value: JsonObject, schema: SchemaLike = {}): readonly ArgumentView[] {
  const properties = schema.properties ?? {};
  const order = Object.keys(properties).filter((name) => name in value);
  const names = [...order, ...Object.keys(value).filter((name) => !order.includes(name))];
  const views: ArgumentView[] = [];
  const done = new Set<string>();
  for (const name of names) {
    if (done.has(name)) continue;
    const pair = BEFORE_AFTER.find((each) => each.includes(name));
    const change = pair === undefined ? null : changeOf(value, pair);
    if (change !== null) {
      change.names.forEach((each) => done.add(each));
      views.push(change);
      continue;
    }
    const member = properties[name];
    const about =
      isSchema(member) && typeof member.description === "string" ? member.description : undefined;
    const view = viewOf(value[name] ?? null, name, isSchema(member) ? member : {});
    views.push({ kind: "member", name, view, about });
  }
  return views;
}

function isSchema(value: unknown): value is SchemaLike {
  return typeof value === "object" && value !== null;
}

function changeOf(value: JsonObject, names: readonly [string, string]) {
  const [before, after] = [value[names[0]], value[names[1]]];
  if (typeof before !== "string" || typeof after !== "string") return null;
  // Short words, such as names, read better side by side.
  if (!before.includes("\n") && !after.includes("\n") && before.length + after.length < 80)
    return null;
  return { kind: "change", names, before, after } as const;
}

/** How two versions of arguments differ: the members that were added, removed or changed. */
export interface MemberChange {
  readonly name: string;
  readonly before: Json | undefined;
  readonly after: Json | undefined;
}

export function memberChanges(
  before: Json | undefined,
  after: Json | undefined,
): readonly MemberChange[] {
  if (!isObject(before) || !isObject(after)) {
    return same(before, after) ? [] : [{ name: "", before, after }];
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter((name) => !same(before[name], after[name]))
    .map((name) => ({ name, before: before[name], after: after[name] }));
}

/** Whether two JSON values say the same; the order of members does not matter. */
export function same(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    const [left, right]: [readonly Json[], readonly Json[]] = [one, other];
    return left.length === right.length && left.every((each, index) => same(each, right[index]));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]))
  );
}
