/** What an example is made from. */
export interface ExampleTool {
  name: string;
  summary: string;
  is_read_only: boolean;
}

export interface ExamplePrompt {
  tool: string;
  text: string;
}

const MOST = 4;
const LONGEST = 140;

/**
 * Prompts to begin with: what the tools say that they do, as a person would ask for it. Tools that
 * change nothing come first.
 */
export function examplePrompts(tools: readonly ExampleTool[]): ExamplePrompt[] {
  const readers = tools.filter((tool) => tool.is_read_only);
  const others = tools.filter((tool) => !tool.is_read_only);
  const examples = [...readers, ...others]
    .map((tool) => ({ tool: tool.name, text: firstSentence(tool.summary) }))
    .filter((example) => example.text !== "");
  return examples
    .filter((example, index) => examples.findIndex((each) => each.text === example.text) === index)
    .slice(0, MOST);
}

/** The first sentence of a description, without the line breaks of a docstring. */
export function firstSentence(description: string): string {
  const paragraph = description.trim().split(/\n\s*\n/)[0] ?? "";
  const line = paragraph.replace(/\s+/g, " ");
  const sentence = /^.+?[.!?](?=\s|$)/.exec(line)?.[0] ?? line;
  return sentence.length > LONGEST ? `${sentence.slice(0, LONGEST - 1)}…` : sentence;
}
