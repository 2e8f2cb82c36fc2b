import { expect, test } from "vitest";

import { examplePrompts, firstSentence } from "@/pages/chat/examples";

const tool = (name: string, summary: string, isReadOnly = false) => ({
  name,
  summary,
  is_read_only: isReadOnly,
});

test("tools that change nothing come first, and no more than four", () => {
  const tools = [
    tool("order", "Order more of a part.\n\nArgs:\n  part: what"),
    tool("stock", "Say how many of a part\nare left.", true),
    ...["a", "b", "c", "d"].map((name) => tool(name, `Do ${name}.`)),
  ];
  expect(examplePrompts(tools)).toEqual([
    { tool: "stock", text: "Say how many of a part are left." },
    { tool: "order", text: "Order more of a part." },
    { tool: "a", text: "Do a." },
    { tool: "b", text: "Do b." },
  ]);
});

test("a tool without a description gives no example, and none comes twice", () => {
  expect(examplePrompts([tool("x", "  "), tool("y", "Do it."), tool("z", "Do it.")])).toEqual([
    { tool: "y", text: "Do it." },
  ]);
});

test("the first sentence keeps numbers whole and is cut when it is long", () => {
  expect(firstSentence("Add 1.5 to it. Then stop.")).toBe("Add 1.5 to it.");
  expect(firstSentence("x".repeat(200))).toHaveLength(140);
});
