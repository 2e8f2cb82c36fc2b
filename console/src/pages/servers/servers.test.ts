import { expect, it } from "vitest";

import { refreshAfter, type ServerFacts } from "./servers";

const server = (state: ServerFacts["state"]): ServerFacts =>
  ({ name: "s", state }) as unknown as ServerFacts;

it("looks more often while a server is away", () => {
  expect(refreshAfter([server("connected"), server("disconnected")])).toBe(1_000);
  expect(refreshAfter([server("connected")])).toBe(2_000);
  expect(refreshAfter(undefined)).toBe(2_000);
});
