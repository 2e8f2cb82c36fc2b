const MOST_MEMBERS = 6;
const MOST_TEXT = 400;

/** Arguments in a few short lines: a name and a text each. The details have all of them. */
export function previewOf(value: unknown): [string, string][] {
  if (value === undefined || value === null || value === "") return [];
  if (typeof value !== "object" || Array.isArray(value)) return [["", shortOf(value)]];
  const members = Object.entries(value);
  const shown = members
    .slice(0, MOST_MEMBERS)
    .map(([name, member]): [string, string] => [name, shortOf(member)]);
  const left = members.length - shown.length;
  return left > 0 ? [...shown, ["…", `+${left}`]] : shown;
}

function shortOf(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.slice(0, MOST_TEXT).replace(/\s+/gu, " ");
}
