import { messages } from "@/messages";

/** The ids that no rule has: nothing in the file decided. */
const RESERVED: Readonly<Record<string, string>> = messages.parts.reservedRules;

/** Why a decision is due without a rule that says so; undefined where it is a rule's. */
export function reservedRule(rule: string): string | undefined {
  return Object.hasOwn(RESERVED, rule) ? RESERVED[rule] : undefined;
}

/** The name of what decides: a rule, or why none does. */
export function ruleName(rule: string): string {
  return reservedRule(rule) ?? rule;
}
