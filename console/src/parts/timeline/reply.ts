import { asFacts, jsonIn, listIn, textIn, type Facts } from "@/parts/timeline/envelope";

export interface ProposedCall {
  callId: string;
  tool: string;
  arguments: unknown;
}

/** What one reply of a model says, whichever provider it came from. */
export interface Reply {
  text: string;
  reasoning: string[];
  calls: ProposedCall[];
}

const CALLS = new Set(["function_call", "custom_tool_call", "tool_call"]);

/** Read the items of `model.responded`: those of the Responses API, or parts of pydantic-ai. */
export function readReply(data: Facts): Reply {
  const reply: Reply = { text: "", reasoning: [], calls: [] };
  for (const item of listIn(data, "items").map(asFacts)) readItem(item, reply);
  return reply;
}

function readItem(item: Facts, reply: Reply): void {
  const type = textIn(item, "type") ?? "";
  if (type === "message") reply.text += messageText(item);
  else if (type === "text") reply.text += textIn(item, "text") ?? "";
  else if (type === "reasoning") reply.reasoning.push(...reasoningTexts(item));
  else if (type === "thinking") pushText(reply.reasoning, textIn(asFacts(item["part"]), "content"));
  else if (CALLS.has(type)) pushCall(item, reply);
}

function messageText(item: Facts): string {
  return listIn(item, "content")
    .map(asFacts)
    .map((part) => textIn(part, "text") ?? textIn(part, "refusal") ?? "")
    .join("");
}

function reasoningTexts(item: Facts): string[] {
  const parts = [...listIn(item, "summary"), ...listIn(item, "content")].map(asFacts);
  return parts.map((part) => textIn(part, "text") ?? "").filter((text) => text !== "");
}

function pushText(texts: string[], text: string | null): void {
  if (text !== null && text !== "") texts.push(text);
}

function pushCall(item: Facts, reply: Reply): void {
  const callId = textIn(item, "call_id");
  if (callId === null) return;
  const raw = item["arguments"] ?? item["input"] ?? null;
  reply.calls.push({
    callId,
    tool: textIn(item, "name") ?? "",
    arguments: typeof raw === "string" ? jsonIn(raw) : raw,
  });
}
