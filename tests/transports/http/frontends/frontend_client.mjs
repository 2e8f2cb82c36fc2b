// Front ends as people build them: node frontend_client.mjs MODULES
// Reads one JSON command per line: {"op": ..., "name": CHAT, ...}, and answers each with one line:
// {"value": ...} or {"fault": TEXT}. "ui.*" drives the AI SDK's Chat, "agent.*" AG-UI's HttpAgent.
import { createInterface } from "node:readline";

const modules = process.argv[2];
const { Chat } = await import(`${modules}/@ai-sdk/react/dist/index.js`);
const {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
} = await import(`${modules}/ai/dist/index.js`);
const { HttpAgent } = await import(`${modules}/@ag-ui/client/dist/index.mjs`);
console.error = () => {};

const chats = new Map();
const agents = new Map();

function openChat({ name, url, token, origin, messages, tools, outputs }) {
  const headers = { authorization: `Bearer ${token}`, ...(origin ? { origin } : {}) };
  const transport = new DefaultChatTransport({
    api: `${url}/v1/ui-stream`,
    headers,
    ...(tools ? { body: { tools } } : {}),
  });
  const seen = { data: [], states: [], fault: null, called: [] };
  const chat = new Chat({
    id: name,
    messages,
    transport,
    sendAutomaticallyWhen: (options) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(options) ||
      (outputs !== undefined && lastAssistantMessageIsCompleteWithToolCalls(options)),
    onData: (part) => seen.data.push(part),
    onError: (error) => (seen.fault = error.message),
    onToolCall: ({ toolCall }) => {
      seen.called.push(toolCall.toolName);
      if (!(toolCall.toolName in (outputs ?? {}))) return;
      const { toolName: tool, toolCallId } = toolCall;
      chat.addToolOutput({ tool, toolCallId, ...outputs[tool] });
    },
  });
  chats.set(name, { chat, seen, transport });
}

const shown = ({ chat, seen }) => ({
  messages: chat.messages,
  status: chat.status,
  fault: seen.fault,
  data: seen.data,
  called: seen.called,
});

async function settled(chat) {
  while (chat.status === "submitted" || chat.status === "streaming") await new Promise((go) => setTimeout(go, 5));
}

const runs = {
  "ui.open": (command) => openChat(command),
  "ui.send": async ({ name, text }) => {
    const open = chats.get(name);
    await open.chat.sendMessage(text === undefined ? undefined : { text });
    await settled(open.chat);
    return shown(open);
  },
  "ui.decide": async ({ name, id, approved, reason }) => {
    const open = chats.get(name);
    await open.chat.addToolApprovalResponse({ id, approved, reason });
    await settled(open.chat);
    return shown(open);
  },
  "ui.regenerate": async ({ name }) => {
    await chats.get(name).chat.regenerate();
    return shown(chats.get(name));
  },
  "ui.begin": async ({ name, text }) => {
    // Sends without waiting for the end, and leaves as soon as a tool is called.
    const { chat } = chats.get(name);
    chat.sendMessage({ text });
    const isCalled = () => chat.lastMessage?.parts.some((part) => part.type.startsWith("tool-"));
    while (!isCalled()) await new Promise((go) => setTimeout(go, 5));
    await chat.stop();
    return shown(chats.get(name));
  },
  "ui.resume": async ({ name }) => {
    const open = chats.get(name);
    await open.chat.resumeStream();
    return shown(open);
  },
  "ui.read": async ({ name, text }) => {
    // The same stream, read without the chat: every state of the message.
    const messages = [{ id: `${name}-read`, role: "user", parts: [{ type: "text", text }] }];
    const trigger = "submit-message";
    const stream = await chats.get(name).transport.sendMessages({ chatId: name, messages, trigger });
    const states = [];
    for await (const message of readUIMessageStream({ stream })) states.push(structuredClone(message));
    return states;
  },
  "agent.open": ({ name, url, token, messages }) => {
    const headers = { authorization: `Bearer ${token}` };
    const agent = new HttpAgent({ url: `${url}/v1/ag-ui`, threadId: name, headers, initialMessages: messages });
    agents.set(name, agent);
  },
  "agent.run": async ({ name, text, id, results, ...parameters }) => {
    const agent = agents.get(name);
    if (text !== undefined) agent.addMessage({ id: id ?? crypto.randomUUID(), role: "user", content: text });
    for (const result of results ?? []) agent.addMessage({ id: crypto.randomUUID(), role: "tool", ...result });
    const events = [];
    let pending = [];
    const watch = {
      onEvent: ({ event }) => void events.push(event),
      onRunFinishedEvent: (finished) => void (pending = finished.pendingToolCallIds ?? []),
    };
    let fault = null;
    try {
      await agent.runAgent(parameters, watch);
    } catch (error) {
      fault = error.message;
    }
    return { messages: agent.messages, interrupts: agent.pendingInterrupts, events, fault, pending };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let reply;
  try {
    reply = { value: (await runs[command.op](command)) ?? null };
  } catch (error) {
    reply = { fault: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
