/** Code in coloured pieces. Loaded with the first code that is shown. */

import { javascriptLanguage } from "@codemirror/lang-javascript";
import { jsonLanguage } from "@codemirror/lang-json";
import { pythonLanguage } from "@codemirror/lang-python";
import { StandardSQL } from "@codemirror/lang-sql";
import { yamlLanguage } from "@codemirror/lang-yaml";
import { StreamLanguage } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { highlightCode, tagHighlighter, tags } from "@lezer/highlight";

import type { Language } from "./view";

/** A piece of code and what it is; null where it has no colour. */
export interface CodePiece {
  readonly text: string;
  readonly kind: string | null;
}

const shellLanguage = StreamLanguage.define(shell);

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

function parserOf(language: Exclude<Language, "text">) {
  switch (language) {
    case "javascript":
      return javascriptLanguage.parser;
    case "json":
      return jsonLanguage.parser;
    case "python":
      return pythonLanguage.parser;
    case "shell":
      return shellLanguage.parser;
    case "sql":
      return StandardSQL.language.parser;
    case "yaml":
      return yamlLanguage.parser;
  }
}

/** The lines of `code`, each in its pieces. Joined, they are the code. */
export function highlightedLines(
  code: string,
  language: Language,
): readonly (readonly CodePiece[])[] {
  if (language === "text") return code.split("\n").map((text) => [{ text, kind: null }]);
  const lines: CodePiece[][] = [[]];
  highlightCode(
    code,
    parserOf(language).parse(code),
    highlighter,
    (text, kind) => lines.at(-1)?.push({ text, kind: kind === "" ? null : kind }),
    () => lines.push([]),
  );
  return lines;
}
