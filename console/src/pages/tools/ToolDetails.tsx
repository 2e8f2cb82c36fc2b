import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Text } from "@/parts/untrusted";
import { Json, type JsonValue } from "@/parts/values";

import type { CatalogTool } from "./catalog";
import styles from "./tool.module.css";

const WORDS = messages.tools;

/** The JSON Schemas of a tool. */
export function Schemas({ tool }: { tool: CatalogTool }) {
  return (
    <div className={styles.stack}>
      <h2>{WORDS.argumentsSchema}</h2>
      <Json value={tool.parameters as JsonValue} label={WORDS.argumentsSchema} />
      <h2>{WORDS.resultSchema}</h2>
      {tool.output_schema == null ? (
        <p className={styles.soft}>{WORDS.noResultSchema}</p>
      ) : (
        <Json value={tool.output_schema as JsonValue} label={WORDS.resultSchema} />
      )}
    </div>
  );
}

/** Uses of a tool that its author wrote down. */
export function Examples({
  tool,
  onUse,
}: {
  tool: CatalogTool;
  onUse: ((values: unknown) => void) | undefined;
}) {
  const examples = tool.examples;
  if (examples.length === 0) return <p className={styles.soft}>{WORDS.noExamples}</p>;
  return (
    <ul className={styles.stack}>
      {examples.map((example) => (
        <li key={example.description} className={styles.example}>
          <h3>
            <Text text={example.description} />
          </h3>
          <Json value={example.arguments as JsonValue} label={WORDS.argumentsSchema} />
          <p className={styles.soft}>{WORDS.exampleResult}</p>
          <Json value={example.result as JsonValue} label={WORDS.resultSchema} />
          {onUse !== undefined && tool.entry.is_callable && (
            <Button size="small" onClick={() => onUse(example.arguments)}>
              {WORDS.useExample}
            </Button>
          )}
        </li>
      ))}
    </ul>
  );
}

/** What the digest of a tool covers, in words. */
export function Identity({ tool }: { tool: CatalogTool }) {
  return (
    <div className={styles.stack}>
      <p className={styles.soft}>{WORDS.identityHint}</p>
      <p>
        {WORDS.digest} <code className={styles.digest}>{tool.entry.digest}</code>
      </p>
      <dl className={styles.parts}>
        {Object.entries(tool.parts).map(([name, words]) => (
          <div key={name}>
            <dt>
              <Text text={name} />
            </dt>
            <dd>
              <Text text={words} lines most={2_000} />
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
