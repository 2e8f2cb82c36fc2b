/** How to go on with a session outside of the page. */
export interface ContinueCommands {
  /** A chat at a terminal, with the server that this page is of. */
  terminal: string;
  /** The prompt that waits or was cut off, at a terminal. */
  resume: string;
  /** The same chat on the store alone, in the folder of toolcrib.yaml, when the server is stopped. */
  withoutServer: string;
  /** The command that an editor starts as its agent, on the store alone. */
  editor: string;
}

/** The exact commands for a session. `origin` is the address of the server. */
export function continueCommands(origin: string, sessionId: string): ContinueCommands {
  const session = shellWord(sessionId);
  const url = shellWord(origin);
  return {
    terminal: `toolcrib run --session ${session} --url ${url}`,
    resume: `toolcrib sessions resume ${session} --url ${url}`,
    withoutServer: `toolcrib run --session ${session}`,
    editor: "toolcrib acp",
  };
}

/** A text as one word of a shell. */
export function shellWord(text: string): string {
  if (/^[A-Za-z0-9_.:/@%+=,-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
