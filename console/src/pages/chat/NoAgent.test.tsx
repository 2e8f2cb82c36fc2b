import { render } from "@testing-library/react";
import { expect, test } from "vitest";

import { NoAgent } from "@/pages/chat/NoAgent";

test("a server without a model says how to configure one", () => {
  const hint = "name one in `model:` of toolcrib.yaml";
  const agent = { is_configured: false, provider: null, model: null, adapter: null, hint };
  const { container } = render(<NoAgent agent={agent} />);
  expect(container.textContent).toContain("No agent is configured");
  expect(container.textContent).toContain("model: {openai: gpt-5.1}");
  expect(container.textContent).toContain("toolcrib serve --adapter my_module:adapter");
  expect(container.textContent).toContain(hint);
});
