// The official `openai` SDK for Node: Responses, chat completions, streams, embeddings.
import assert from "node:assert/strict";

import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.PROVIDER_URL, apiKey: process.env.TOKEN });

const hello = await client.responses.create({ model: "gpt-5", input: "Say hello" });
assert.equal(hello.output_text, "Hello from the provider.");

let text = "";
for await (const event of await client.responses.create({ model: "gpt-5", input: "Say hello", stream: true })) {
  if (event.type === "response.output_text.delta") text += event.delta;
}
assert.equal(text, "Hello from the provider.");
console.log("responses: an answer, a stream");

const messages = [{ role: "user", content: "Say hello" }];
const chat = await client.chat.completions.create({ model: "gpt-5", messages });
assert.equal(chat.choices[0].message.content, "Hello from the provider.");
text = "";
for await (const piece of await client.chat.completions.create({ model: "gpt-5", messages, stream: true })) {
  text += piece.choices[0]?.delta?.content ?? "";
}
assert.equal(text, "Hello from the provider.");
console.log("chat completions: an answer, a stream");

const conversation = await client.conversations.create({});
await client.responses.create({ model: "gpt-5", input: "Say hello", conversation: conversation.id });
assert.equal((await client.conversations.items.list(conversation.id)).data.length, 2);
console.log("conversations: two items");
