import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { showable, Text } from "@/parts/untrusted";
import { Arguments, Diff, memberChanges, Value, viewOf, type JsonValue } from "@/parts/values";

import type { ArgumentsVersion, CallFacts } from "./call";
import styles from "./detail.module.css";

const words = messages.detail;

/** The arguments of a call at each point of its way, each with what is other than before. */
export function ArgumentVersions({ call }: { call: CallFacts }) {
  const hasRun = call.versions.some((version) => version.kind === "executed");
  return (
    <div className={styles.stack}>
      {call.versions.map((version, index) => (
        <Version
          key={version.kind}
          version={version}
          before={call.versions[index - 1] ?? null}
          schema={call.schema}
        />
      ))}
      {call.ended !== null && !hasRun ? <p className={styles.quiet}>{words.notExecuted}</p> : null}
    </div>
  );
}

interface VersionProps {
  readonly version: ArgumentsVersion;
  readonly before: ArgumentsVersion | null;
  readonly schema: object | null;
}

function Version({ version, before, schema }: VersionProps) {
  const changes = before === null ? [] : memberChanges(before.value, version.value);
  const title =
    version.kind === "edited" && version.by !== null
      ? words.editedBy(showable(version.by))
      : words.versions[version.kind];
  return (
    <section className={styles.version} aria-label={title} data-version={version.kind}>
      <h3 className={styles.heading}>
        {title}{" "}
        {changes.length > 0 ? <Badge tone="warn">{words.changes(changes.length)}</Badge> : null}
      </h3>
      {before !== null && changes.length === 0 ? (
        <p className={styles.quiet}>{words.sameAsBefore}</p>
      ) : null}
      {changes.length > 0 ? (
        <ul className={styles.changes}>
          {changes.map((change) => (
            <li key={change.name}>
              {change.name === "" ? null : (
                <>
                  <Text text={change.name} />:{" "}
                </>
              )}
              <Change before={change.before} after={change.after} />
            </li>
          ))}
        </ul>
      ) : null}
      <Arguments schema={schema} arguments={version.value} />
    </section>
  );
}

function Change({
  before,
  after,
}: {
  before: JsonValue | undefined;
  after: JsonValue | undefined;
}) {
  if (
    typeof before === "string" &&
    typeof after === "string" &&
    `${before}${after}`.includes("\n")
  ) {
    return <Diff before={before} after={after} />;
  }
  return (
    <>
      {before === undefined ? (
        <span className={styles.quiet}>{words.added}</span>
      ) : (
        <del className={styles.removed}>
          <Short value={before} />
        </del>
      )}{" "}
      {after === undefined ? (
        <span className={styles.quiet}>{words.removed}</span>
      ) : (
        <ins className={styles.added}>
          <Short value={after} />
        </ins>
      )}
    </>
  );
}

function Short({ value }: { value: JsonValue }) {
  return typeof value === "object" && value !== null ? (
    <Value view={viewOf(value)} />
  ) : (
    // In quotes, so that an empty text is seen, too.
    <Text text={JSON.stringify(value)} most={200} />
  );
}
