/** Text of models, tools and people as it may be shown: nothing that hides, reorders or commands. */

/** A piece of a text: as it is, or something that a reader must see to know what the text holds. */
export interface Piece {
  readonly kind: "text" | "control" | "terminal";
  /** What to show. */
  readonly text: string;
  /** What it is, in words; for pieces that are not plain text. */
  readonly name?: string;
}

export interface ShowableOptions {
  /** Whether line breaks and tabs stay what they are; in one line they are escaped too. */
  readonly lines?: boolean;
}

// The categories of toolcrib/terminal_text.py: what is shown here and in a terminal is the same.
const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/u;
// A whole sequence is one token: ESC [ ... letter, ESC ] ... BEL or ESC \, ESC and one character.
const TERMINAL = new RegExp(
  "(?:\\u001b\\[|\\u009b)[0-?]*[ -/]*[@-~]" +
    "|(?:\\u001b[\\]PX^_]|[\\u009d\\u0090\\u0098\\u009e\\u009f])[^\\u0007\\u001b\\u009c\\n]*(?:\\u0007|\\u001b\\\\|\\u009c)" +
    "|\\u001b[ -~]?",
  "y",
);

const NAMES: Readonly<Record<number, string>> = {
  0x00: "null",
  0x07: "bell",
  0x08: "backspace",
  0x09: "tab",
  0x0a: "line break",
  0x0d: "carriage return",
  0x1b: "escape",
  0x7f: "delete",
  0xad: "soft hyphen",
  0x061c: "Arabic letter mark",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "end of a change of direction",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "end of an isolate",
  0xfeff: "zero-width no-break space",
};

/** `text` with every character escaped that a browser would obey, hide or reorder. For places that
 * hold no elements, such as labels, titles and attributes; elsewhere use `<Text>`.
 */
export function showable(text: string, options: ShowableOptions = {}): string {
  return pieces(text, options)
    .map((piece) => piece.text)
    .join("");
}

/** Whether there is something in `text` that has to be made visible. */
export function isPlain(text: string, options: ShowableOptions = {}): boolean {
  if (/^[ -~]*$/.test(text)) return true;
  if (!options.lines) return !UNSHOWABLE.test(text);
  return !UNSHOWABLE.test(text.replace(/\r\n|[\n\t]/g, ""));
}

/** The pieces of `text`, in order. Joined, they are what `showable` returns. */
export function pieces(text: string, options: ShowableOptions = {}): readonly Piece[] {
  if (isPlain(text, options)) return text === "" ? [] : [{ kind: "text", text: lineBreaks(text) }];
  const all: Piece[] = [];
  let plain = "";
  const end = () => {
    if (plain !== "") all.push({ kind: "text", text: plain });
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    const sequence = sequenceAt(text, at);
    if (sequence !== "") {
      end();
      all.push({ kind: "terminal", text: escaped(sequence), name: "terminal code" });
      at += sequence.length;
      continue;
    }
    const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
    const kept = options.lines ? lineCharacter(text, at) : "";
    if (kept !== "") {
      plain += kept === "\t" ? "\t" : "\n";
      at += kept.length;
      continue;
    }
    if (UNSHOWABLE.test(character)) {
      end();
      all.push({ kind: "control", text: escaped(character), name: nameOf(character) });
    } else {
      plain += character;
    }
    at += character.length;
  }
  end();
  return all;
}

function lineBreaks(text: string): string {
  return text.includes("\r") ? text.replaceAll("\r\n", "\n") : text;
}

function lineCharacter(text: string, at: number): string {
  if (text[at] === "\n" || text[at] === "\t") return text[at] ?? "";
  return text.startsWith("\r\n", at) ? "\r\n" : "";
}

function sequenceAt(text: string, at: number): string {
  const code = text.charCodeAt(at);
  if (code !== 0x1b && !(code >= 0x90 && code <= 0x9f)) return "";
  TERMINAL.lastIndex = at;
  return TERMINAL.exec(text)?.[0] ?? "";
}

function escaped(text: string): string {
  let written = "";
  for (const character of text)
    written += UNSHOWABLE.test(character) ? units(character) : character;
  return written;
}

// As JSON writes it, so that JSON made safe to show is still the same JSON.
function units(character: string): string {
  let written = "";
  for (let at = 0; at < character.length; at++) {
    written += `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
  }
  return written;
}

function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const name = NAMES[code];
  if (name !== undefined) return name;
  if (/\p{Cc}/u.test(character)) return "control character";
  if (/\p{Cf}/u.test(character)) return "invisible character";
  return "unknown character";
}
