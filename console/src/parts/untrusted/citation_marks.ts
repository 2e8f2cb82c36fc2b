/** Marks in a text where it cites something. */

interface Spanned {
  readonly span?: readonly [number, number] | null;
}

/** Stands in the text for a citation until it is rendered. Private characters: `showable` would
 * escape them in a text of somebody else, so that nobody can forge a mark.
 */
const OPEN = "\ue0c1";
const CLOSE = "\ue0c2";

/** A mark is put after each citing place. Places are counted in characters, as Python counts them,
 * not in the units of JavaScript.
 */
export function withMarks(text: string, sources: readonly Spanned[]): string {
  const characters = Array.from(text, (character) =>
    character === OPEN || character === CLOSE ? "\ufffd" : character,
  );
  const ends = sources
    .map((source, index) => ({ end: source.span?.[1], index }))
    .filter((each): each is { end: number; index: number } => each.end !== undefined)
    .filter(({ end }) => end >= 0 && end <= characters.length)
    .sort((one, other) => other.end - one.end || other.index - one.index);
  for (const { end, index } of ends) characters.splice(end, 0, `${OPEN}${index + 1}${CLOSE}`);
  return characters.join("");
}

/** A text in pieces: text, and the numbers of citations between. */
export function splitMarks(text: string): readonly (string | number)[] {
  return text
    .split(new RegExp(`(${OPEN}\\d+${CLOSE})`))
    .filter((part) => part !== "")
    .map((part) => (part.startsWith(OPEN) ? Number(part.slice(1, -1)) : part));
}
