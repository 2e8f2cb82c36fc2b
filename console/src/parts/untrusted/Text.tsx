import { messages } from "@/messages";
import { pieces } from "./showable";
import styles from "./untrusted.module.css";

interface TextProps {
  readonly text: string;
  /** Whether line breaks and tabs of the text are kept. */
  readonly lines?: boolean;
  /** How many characters are shown at most; the rest is left out with a mark. */
  readonly most?: number;
}

/** Text that somebody else wrote: isolated from the direction of the text around it, with every
 * character marked that would hide, reorder or command.
 */
export function Text({ text, lines = false, most }: TextProps) {
  const isCut = most !== undefined && text.length > most;
  const shown = isCut ? wholeCharacters(text, most) : text;
  return (
    <bdi className={lines ? styles.lines : undefined}>
      {pieces(shown, { lines }).map((piece, index) =>
        piece.kind === "text" ? (
          piece.text
        ) : (
          <span
            key={index}
            className={styles.token}
            title={messages.untrusted.token(piece.name ?? "")}
            data-untrusted={piece.kind}
          >
            {piece.text}
          </span>
        ),
      )}
      {isCut ? "…" : null}
    </bdi>
  );
}

/** The first `most` units of `text`, without half of a character at the end. */
function wholeCharacters(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}
