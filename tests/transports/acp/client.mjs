// An editor on the TypeScript SDK: node client.mjs SDK OPTION SESSION|- KILL|- AGENT...
// Opens a session (or loads SESSION), prompts, answers questions with OPTION ("cancel" cancels the
// prompt instead, "none" sends no prompt), and prints what it was told as JSON. With KILL, the agent
// is killed while the question is open.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, option, session, kill, ...command] = process.argv.slice(2);
const acp = await import(sdk);
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const told = { updates: [], questions: [] };

const app = acp
  .client()
  .onNotification("session/update", ({ params }) => told.updates.push(params.update))
  .onRequest("session/request_permission", ({ params, agent: cx }) => {
    told.questions.push(params);
    if (kill === "KILL") {
      agent.kill("SIGKILL");
      return new Promise(() => {});
    }
    if (option === "cancel") {
      cx.notify("session/cancel", { sessionId: params.sessionId });
      return { outcome: { outcome: "cancelled" } };
    }
    return { outcome: { outcome: "selected", optionId: option } };
  });

try {
  await app.connectWith(stream, async (cx) => {
    told.initialized = await cx.request("initialize", {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    const place = { cwd: process.cwd(), mcpServers: [] };
    if (session === "-") {
      told.sessionId = (await cx.request("session/new", place)).sessionId;
    } else {
      told.sessionId = session;
      await cx.request("session/load", { ...place, sessionId: session });
    }
    if (option !== "none") {
      const prompt = [{ type: "text", text: "Greet Bob." }];
      const answer = await cx.request("session/prompt", { sessionId: told.sessionId, prompt });
      told.stopReason = answer.stopReason;
    }
    // A request resolves before the handlers of the updates ahead of it have run; one more turn
    // lets them.
    told.sessions = (await cx.request("session/list", {})).sessions;
  });
} catch (error) {
  told.error = String(error?.message ?? error);
}
process.stdout.write(JSON.stringify(told), () => process.exit(0));
