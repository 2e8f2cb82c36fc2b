import { expect, test } from "vitest";

import { continueCommands, shellWord } from "@/pages/chat/commands";

test("the commands name the session and the server", () => {
  const commands = continueCommands("http://127.0.0.1:8420", "ses_1");
  expect(commands.terminal).toBe("toolcrib run --session ses_1 --url http://127.0.0.1:8420");
  expect(commands.resume).toBe("toolcrib sessions resume ses_1 --url http://127.0.0.1:8420");
  expect(commands.withoutServer).toBe("toolcrib run --session ses_1");
});

test("an id that a shell would obey is one word", () => {
  expect(shellWord("a; rm -rf $HOME")).toBe("'a; rm -rf $HOME'");
  expect(shellWord("it's")).toBe("'it'\\''s'");
  expect(shellWord("bob:shop-1")).toBe("bob:shop-1");
});
