/** Code in coloured pieces. Loaded with the first code that is shown. */

import type { Parser } from "@lezer/common";
import { highlightCode, tagHighlighter, tags } from "@lezer/highlight";

import type { Language } from "./view";

/** A piece of code and what it is; null where it has no colour. */
export interface CodePiece {
  readonly text: string;
  readonly kind: string | null;
}

const highlighter = tagHighlighter([
  {
    tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.modifier],
    class: "keyword",
  },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], class: "string" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], class: "number" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment, tags.meta], class: "comment" },
  {
    tag: [tags.propertyName, tags.function(tags.variableName), tags.typeName, tags.className],
    class: "name",
  },
  { tag: [tags.standard(tags.variableName), tags.definition(tags.variableName)], class: "name" },
]);

/**
 * The parser of a language, loaded when it is needed. Where there is one without an editor around it
 * that one is taken: an editor weighs five times as much.
 */
async function parserOf(language: Exclude<Language, "text">): Promise<Parser> {
  switch (language) {
    case "javascript":
      return (await import("@lezer/javascript")).parser.configure({ dialect: "ts jsx" });
    case "json":
      return (await import("@lezer/json")).parser;
    case "python":
      return (await import("@lezer/python")).parser;
    case "shell": {
      const [{ StreamLanguage }, { shell }] = await Promise.all([
        import("@codemirror/language"),
        import("@codemirror/legacy-modes/mode/shell"),
      ]);
      return StreamLanguage.define(shell).parser;
    }
    case "sql":
      return (await import("@codemirror/lang-sql")).StandardSQL.language.parser;
    case "yaml":
      return (await import("@lezer/yaml")).parser;
  }
}

/** The lines of `code`, each in its pieces. Joined, they are the code. */
export async function highlightedLines(
  code: string,
  language: Language,
): Promise<readonly (readonly CodePiece[])[]> {
  if (language === "text") return code.split("\n").map((text) => [{ text, kind: null }]);
  const lines: CodePiece[][] = [[]];
  highlightCode(
    code,
    (await parserOf(language)).parse(code),
    highlighter,
    (text, kind) => lines.at(-1)?.push({ text, kind: kind === "" ? null : kind }),
    () => lines.push([]),
  );
  return lines;
}
