import type { Approval } from "@/api/inbox";
import { messages } from "@/messages";

const MOST = 3;
const LONGEST = 48;

/** One sentence about what a call would do, made of the tool's name and its arguments. */
export function intentOf(approval: Pick<Approval, "tool" | "arguments" | "rule">): string {
  const entries = Object.entries(approval.arguments).filter(
    ([, value]) => value !== null && value !== "",
  );
  const told = entries.slice(0, MOST).map(([name, value]) => `${name} ${shortValue(value)}`);
  const more = entries.length - told.length;
  const args = more > 0 ? [...told, messages.inbox.moreArguments(more)] : told;
  const list = new Intl.ListFormat("en").format(args);
  return approval.rule === "in_doubt"
    ? messages.inbox.intentInDoubt(approval.tool, list)
    : messages.inbox.intent(approval.tool, list);
}

/** A value on one short line. */
export function shortValue(value: unknown): string {
  if (Array.isArray(value)) return messages.inbox.items(value.length);
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
}

/** Who asks, in words: a person, a model on behalf of one, or the program itself. */
export function askerOf(caller: Approval["caller"]): string {
  const who = caller.principal ?? messages.inbox.program;
  return caller.is_model ? messages.inbox.modelFor(who) : who;
}
