// The Vercel AI SDK with openai.chat() and openai.embedding().
// Run it: `node tests/clients/vercel_ai.mjs URL TOKEN`, where ai, @ai-sdk/openai and zod are installed,
// against tests.clients.demo_provider. Status 0: every answer was right.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { embed, embedMany, generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const openai = createOpenAI({ baseURL, apiKey });
const model = openai.chat("demo");
const tools = {
  add: tool({
    description: "Add two numbers.",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => a + b,
  }),
};
const calling = { model, prompt: "add", tools, stopWhen: stepCountIs(3) };

assert.equal((await generateText({ model, prompt: "hello" })).text, "Heard 1: hello");
assert.equal(await streamText({ model, prompt: "hello" }).text, "Heard 1: hello");
assert.equal((await generateText(calling)).text, "The tool says 42");
assert.equal(await streamText(calling).text, "The tool says 42");
const schema = z.object({ total: z.number() });
assert.deepEqual((await generateObject({ model, schema, prompt: "sum" })).object, { total: 21 });
const vectors = openai.embedding("all-MiniLM-L6-v2-int8");
assert.equal((await embed({ model: vectors, value: "hello" })).embedding.length, 384);
assert.equal((await embedMany({ model: vectors, values: ["a", "b"] })).embeddings.length, 2);
