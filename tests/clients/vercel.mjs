// The Vercel AI SDK: Responses, chat(), embed(), tools, and its MCP client.
import assert from "node:assert/strict";

import { createMCPClient } from "@ai-sdk/mcp";
import { createOpenAI } from "@ai-sdk/openai";
import { embed, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.PROVIDER_URL, apiKey: process.env.TOKEN });
const add = tool({
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a + b,
});

for (const [name, model] of [
  ["responses", openai("gpt-5")],
  ["chat", openai.chat("gpt-5")],
]) {
  assert.equal((await generateText({ model, prompt: "Say hello" })).text, "Hello from the provider.");
  let text = "";
  for await (const piece of streamText({ model, prompt: "Say hello" }).textStream) text += piece;
  assert.equal(text, "Hello from the provider.");
  const summed = await generateText({ model, prompt: "Add", tools: { add }, stopWhen: stepCountIs(3) });
  assert.equal(summed.text, "The sum is 42");
  console.log(`${name}: an answer, a stream, a tool`);
}

const listed = await fetch(`${process.env.PROVIDER_URL}/models`, {
  headers: { Authorization: `Bearer ${process.env.TOKEN}` },
});
const embedder = (await listed.json()).data.map((each) => each.id).find((id) => /minilm|embed/i.test(id));
const { embedding } = await embed({ model: openai.embedding(embedder), value: "a saw" });
assert.ok(embedding.length > 100);
console.log("embed: a vector");

const mcp = await createMCPClient({
  transport: {
    type: "http",
    url: process.env.MCP_URL,
    headers: { Authorization: `Bearer ${process.env.TOKEN}` },
  },
});
try {
  const tools = await mcp.tools();
  assert.ok("add" in tools && "order" in tools);
  const summed = await generateText({ model: openai("gpt-5"), prompt: "Add", tools, stopWhen: stepCountIs(3) });
  assert.match(summed.text, /42/);
  console.log("MCP client: a tool of the server");
} finally {
  await mcp.close();
}
