import { describe, expect, it } from "vitest";

import { highlightedLines } from "./highlight";
import type { Language } from "./view";

const CODE: Readonly<Record<Language, string>> = {
  javascript: "const a = 'x'; // why\nlet b = 1;",
  json: '{"a": [1, true, null]}',
  python: "def f(x):\n    return 'y'  # why",
  shell: '# why\nif true; then echo "x"; fi',
  sql: "SELECT a FROM b WHERE c = 'x' -- why",
  yaml: "a: 1\nb: # why\n  - x",
  text: "plain\n\n<b>text</b>",
};

describe("highlightedLines", () => {
  it("changes nothing of the code, in any language", async () => {
    for (const [language, code] of Object.entries(CODE)) {
      const lines = await highlightedLines(code, language as Language);
      const joined = lines.map((line) => line.map((piece) => piece.text).join("")).join("\n");
      expect(joined, language).toBe(code);
    }
  });

  it("finds words and comments", async () => {
    for (const language of ["javascript", "python", "shell", "sql"] as const) {
      const kinds = (await highlightedLines(CODE[language], language))
        .flat()
        .map((piece) => piece.kind);
      expect(kinds, language).toContain("keyword");
      expect(kinds, language).toContain("comment");
    }
  });

  it("takes broken code as it is", async () => {
    const code = "def (((:\n  '''";
    const lines = await highlightedLines(code, "python");
    expect(lines.map((line) => line.map((piece) => piece.text).join("")).join("\n")).toBe(code);
  });
});
