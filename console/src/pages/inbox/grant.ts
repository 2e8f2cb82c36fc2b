import type { Approval } from "@/api/inbox";
import type { GrantTerms } from "@/pages/inbox/decision";

export type PatternKind = "equals" | "any" | "glob" | "max" | "min";

/** The pattern of one argument, as a person chooses it. */
export interface PatternChoice {
  pointer: string;
  name: string;
  value: unknown;
  kind: PatternKind;
  text: string;
}

export interface GrantChoice {
  scope: "session" | "principal" | "everyone";
  patterns: PatternChoice[];
  /** Empty is no limit. */
  uses: string;
  seconds: number | null;
}

export const DAY = 86_400;

/** A grant for calls that are exactly like this one, for a day: whoever wants more has to choose it. */
export function firstChoice(approval: Approval): GrantChoice {
  return {
    scope: "session",
    patterns: Object.entries(approval.arguments).map(([name, value]) => ({
      pointer: `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`,
      name,
      value,
      kind: isScalar(value) ? "equals" : "any",
      text: typeof value === "string" ? value : (JSON.stringify(value) ?? ""),
    })),
    uses: "",
    seconds: DAY,
  };
}

export function isScalar(value: unknown): boolean {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

/** The kinds of patterns that an argument of this value can have. */
export function kindsFor(value: unknown): PatternKind[] {
  if (typeof value === "string") return ["equals", "glob", "any"];
  if (typeof value === "number") return ["equals", "max", "min", "any"];
  return isScalar(value) ? ["equals", "any"] : ["any"];
}

/** The terms as the server takes them; null while a number is not one. */
export function termsOf(choice: GrantChoice): GrantTerms | null {
  const uses = choice.uses.trim() === "" ? null : Number(choice.uses);
  if (uses !== null && (!Number.isInteger(uses) || uses < 1)) return null;
  const patterns: Record<string, unknown> = {};
  for (const pattern of choice.patterns) {
    const written = patternOf(pattern);
    if (written === undefined) return null;
    if (written !== null) patterns[pattern.pointer] = written.pattern;
  }
  return {
    scope: choice.scope,
    arguments: patterns as never,
    uses,
    expires_in_seconds: choice.seconds,
    unlimited: uses === null && choice.seconds === null,
  };
}

/** The pattern in JSON; null for any value, undefined when it is not complete. */
function patternOf(choice: PatternChoice): { pattern: unknown } | null | undefined {
  switch (choice.kind) {
    case "any":
      return null;
    case "equals":
      return { pattern: choice.value };
    case "glob":
      return choice.text === "" ? undefined : { pattern: { glob: choice.text } };
    case "max":
    case "min": {
      const limit = Number(choice.text);
      const isLimit = choice.text.trim() !== "" && Number.isFinite(limit);
      return isLimit ? { pattern: { [choice.kind]: limit } } : undefined;
    }
  }
}
