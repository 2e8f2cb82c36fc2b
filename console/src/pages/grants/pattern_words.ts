import { messages } from "@/messages";

const words = messages.grants;

/** What a pattern says about an argument, in words. `pointer` names the argument. */
export function patternWords(pointer: string, pattern: unknown): string {
  const name = argumentName(pointer);
  if (typeof pattern !== "object" || pattern === null || Array.isArray(pattern)) {
    return words.is(name, JSON.stringify(pattern));
  }
  const facts = pattern as Record<string, unknown>;
  if ("glob" in facts) return words.matches(name, String(facts["glob"]));
  if ("regex" in facts) return words.regex(name, String(facts["regex"]));
  if (Array.isArray(facts["one_of"])) {
    return words.oneOf(name, facts["one_of"].map((value) => JSON.stringify(value)).join(", "));
  }
  if ("not" in facts) return words.not(patternWords(pointer, facts["not"]));
  const { min, max } = facts;
  if (min !== undefined && max !== undefined) return words.between(name, String(min), String(max));
  if (max !== undefined) return words.atMost(name, String(max));
  if (min !== undefined) return words.atLeast(name, String(min));
  return words.is(name, JSON.stringify(pattern));
}

/** The name of an argument from its JSON pointer: `/address/city` is "address › city". */
function argumentName(pointer: string): string {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(" › ");
}

/** Every pattern of a grant in words. */
export function patternsInWords(patterns: Record<string, unknown>): string[] {
  return Object.entries(patterns).map(([pointer, pattern]) => patternWords(pointer, pattern));
}
