import { useEffect, useState } from "react";

import { messages } from "@/messages";
import { CopyButton } from "@/parts/CopyButton";
import { Text } from "@/parts/untrusted";

import { Cut } from "./Cut";
import type { CodePiece } from "./highlight";
import styles from "./values.module.css";
import type { Language } from "./view";

const MOST_LINES = 200;
/** Longer code is shown without colours: to parse it would hold up the page. */
const MOST_CHARACTERS = 100_000;

interface CodeProps {
  readonly text: string;
  readonly language?: Language;
  /** What it is, for screen readers. */
  readonly label?: string;
  /** Whether long lines are broken instead of scrolled. */
  readonly wraps?: boolean;
}

/** Code, highlighted as soon as its language is loaded. */
export function Code({
  text,
  language = "text",
  label = messages.values.code,
  wraps = false,
}: CodeProps) {
  const lines = useLines(text, language);
  return (
    <div className={styles.block} data-language={language}>
      <CopyButton text={text} />
      <Cut
        items={lines}
        most={MOST_LINES}
        unit="lines"
        render={(shown) => (
          <pre
            className={wraps ? `${styles.code} ${styles.wraps}` : styles.code}
            tabIndex={0}
            role="group"
            aria-label={label}
          >
            <code>
              {shown.map((line, index) => (
                <span key={index} className={styles.codeLine}>
                  {line.map((piece, place) => (
                    <span
                      key={place}
                      className={piece.kind === null ? undefined : styles[piece.kind]}
                    >
                      <Text text={piece.text} lines />
                    </span>
                  ))}
                  {"\n"}
                </span>
              ))}
            </code>
          </pre>
        )}
      />
    </div>
  );
}

function plainLines(text: string): readonly (readonly CodePiece[])[] {
  return text.split(/\r?\n/).map((line) => [{ text: line, kind: null }]);
}

function useLines(text: string, language: Language): readonly (readonly CodePiece[])[] {
  const [coloured, setColoured] = useState<{
    readonly text: string;
    readonly lines: readonly (readonly CodePiece[])[];
  } | null>(null);
  useEffect(() => {
    if (language === "text" || text.length > MOST_CHARACTERS) return;
    let isGone = false;
    void import("./highlight")
      .then(({ highlightedLines }) => highlightedLines(text, language))
      .then((lines) => {
        if (!isGone) setColoured({ text, lines });
      });
    return () => {
      isGone = true;
    };
  }, [text, language]);
  return coloured !== null && coloured.text === text ? coloured.lines : plainLines(text);
}
