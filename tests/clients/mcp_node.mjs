// The official MCP SDK for Node, over Streamable HTTP.
import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const client = new Client({ name: "desk", version: "1.0.0" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), { requestInit: { headers } }),
);
const { tools } = await client.listTools();
for (const name of ["add", "boom", "slow", "order"]) assert.ok(tools.some((each) => each.name === name));
const summed = await client.callTool({ name: "add", arguments: { a: 20, b: 22 } });
assert.deepEqual(summed.structuredContent, { result: 42 });
assert.ok((await client.callTool({ name: "boom", arguments: {} })).isError);
const heard = [];
await client.callTool({ name: "slow", arguments: {} }, undefined, { onprogress: ({ progress }) => heard.push(progress) });
// Steps that follow each other quickly are told together.
assert.equal(heard.at(-1), 4);
const waiting = await client.callTool({ name: "order", arguments: { item: "saw" } });
assert.match(waiting.content[0].text, /^Waiting for approval apr_/);
console.log("tools, errors, progress, a call that waits");
await client.close();
