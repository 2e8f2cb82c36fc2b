import { messages } from "@/messages";
import { countsOf, type PolicyNote } from "@/pages/policy/notes";
import styles from "@/pages/policy/Policy.module.css";
import { Badge } from "@/parts/Badge";
import { Text } from "@/parts/untrusted";

const words = messages.policy;

/** The faults and warnings in words, each with a link to its line. */
export function NoteList({
  notes,
  isChecking = false,
  onLine,
}: {
  notes: PolicyNote[];
  isChecking?: boolean;
  onLine?: (line: number) => void;
}) {
  const { faults, warnings } = countsOf(notes);
  const summary = [
    faults > 0 ? words.faults(faults) : words.noFaults,
    ...(warnings > 0 ? [words.warnings(warnings)] : []),
  ].join(", ");
  return (
    <section aria-label={words.notes}>
      <p role="status" className={styles.hint}>
        {isChecking ? words.checking : summary}
      </p>
      <ul className={styles.notes}>
        {notes.map((note) => (
          <li key={`${note.line} ${note.level} ${note.message}`}>
            <Badge tone={note.level === "error" ? "bad" : "warn"}>{words[note.level]}</Badge>
            {onLine === undefined ? (
              <span className={styles.lineLink}>{words.lineNumber(note.line)}</span>
            ) : (
              <a
                className={styles.lineLink}
                href={`#L${note.line}`}
                onClick={(event) => {
                  event.preventDefault();
                  onLine(note.line);
                }}
              >
                {words.lineNumber(note.line)}
              </a>
            )}
            <Text text={note.message} />
          </li>
        ))}
      </ul>
    </section>
  );
}
