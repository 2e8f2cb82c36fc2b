import { kindsFor, type PatternChoice, type PatternKind } from "@/pages/inbox/grant";
import { shortValue } from "@/pages/inbox/intent";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { showable, Text } from "@/parts/untrusted";

/** Which arguments a grant covers: a pattern for each. */
export function GrantPatterns({
  patterns,
  onChange,
}: {
  patterns: PatternChoice[];
  onChange: (patterns: PatternChoice[]) => void;
}) {
  if (patterns.length === 0) return <p>{messages.decision.noPatterns}</p>;
  const change = (index: number, changed: Partial<PatternChoice>) =>
    onChange(patterns.map((each, at) => (at === index ? { ...each, ...changed } : each)));
  return (
    <fieldset className={styles.patterns}>
      <legend>{messages.decision.patterns}</legend>
      {patterns.map((pattern, index) => (
        <div key={pattern.pointer} className={styles.pattern}>
          <span className={styles.patternName}>
            <Text text={pattern.name} />
          </span>
          <select
            aria-label={messages.decision.patternOf(showable(pattern.name))}
            value={pattern.kind}
            onChange={(event) => change(index, { kind: event.target.value as PatternKind })}
          >
            {kindsFor(pattern.value).map((kind) => (
              <option key={kind} value={kind}>
                {messages.decision.pattern[kind]}
              </option>
            ))}
          </select>
          {pattern.kind === "equals" || pattern.kind === "any" ? (
            <code className={styles.patternValue}>
              {pattern.kind === "equals" && <Text text={shortValue(pattern.value)} />}
            </code>
          ) : (
            <input
              aria-label={messages.decision.patternValue(showable(pattern.name))}
              value={pattern.text}
              inputMode={pattern.kind === "glob" ? "text" : "decimal"}
              onChange={(event) => change(index, { text: event.target.value })}
            />
          )}
        </div>
      ))}
    </fieldset>
  );
}
