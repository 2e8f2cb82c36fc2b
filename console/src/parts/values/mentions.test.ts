import { expect, it } from "vitest";

import { mentionsIn } from "./mentions";

it("finds the pages and files that a result names, each once", () => {
  const value = {
    results: [
      { url: "https://a.example", title: "A" },
      { url: "https://a.example", title: "again" },
    ],
    outputs: { files: [{ file_id: "f1", filename: "chart.png", container_id: "c" }] },
    url: "https://no-title.example",
  };
  expect(mentionsIn(value)).toEqual({
    sources: [{ url: "https://a.example", title: "A" }],
    files: [{ id: "f1", name: "chart.png" }],
  });
  expect(mentionsIn("text")).toEqual({ sources: [], files: [] });
});
