import { Link } from "@tanstack/react-router";

import { messages } from "@/messages";
import { Badge, type Tone } from "@/parts/Badge";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

import type { ToolChange } from "./servers";
import styles from "./servers.module.css";

const WORDS = messages.servers;
const TONES: Record<ToolChange["kind"], Tone> = {
  added: "accent",
  removed: "plain",
  changed: "warn",
};
const AT_FIRST = 5;

/** What became of the tools of a server since the runtime started. */
export function ToolChanges({ changes }: { changes: ToolChange[] }) {
  if (changes.length === 0) return <p className={styles.soft}>{WORDS.noChanges}</p>;
  const older = changes.slice(AT_FIRST);
  return (
    <section className={styles.changes}>
      <h3>{WORDS.changes}</h3>
      <Changes changes={changes.slice(0, AT_FIRST)} />
      {older.length > 0 && (
        <details>
          <summary>{WORDS.older(older.length)}</summary>
          <Changes changes={older} />
        </details>
      )}
    </section>
  );
}

function Changes({ changes }: { changes: ToolChange[] }) {
  return (
    <ul className={styles.list}>
      {changes.map((change) => (
        <li key={`${change.at} ${change.name}`}>
          <Badge tone={TONES[change.kind]}>{WORDS.changeKinds[change.kind]}</Badge>{" "}
          {change.kind === "removed" ? (
            <Text text={change.name} />
          ) : (
            <Link to="/tools/$name" params={{ name: change.name }} search={{}}>
              <Text text={change.name} />
            </Link>
          )}{" "}
          <Time at={change.at} /> <Digests change={change} />
          {change.changes.length > 0 && (
            <ul className={styles.lines}>
              {change.changes.map((line) => (
                <li key={line}>
                  <Text text={line} most={300} />
                </li>
              ))}
            </ul>
          )}
        </li>
      ))}
    </ul>
  );
}

function Digests({ change }: { change: ToolChange }) {
  if (change.old_digest == null || change.new_digest == null) return null;
  return (
    <span className={styles.digests}>
      <span className="sr-only">{WORDS.digestBefore}</span>
      <code title={change.old_digest}>{change.old_digest.slice(0, 10)}</code>
      <span aria-hidden> → </span>
      <span className="sr-only">{WORDS.digestNow}</span>
      <code title={change.new_digest}>{change.new_digest.slice(0, 10)}</code>
    </span>
  );
}
