import { useId, useState } from "react";

import { messages } from "@/messages";
import { showable, Text } from "@/parts/untrusted";

import { Diff } from "./Diff";
import { Json } from "./Json";
import { Value } from "./Value";
import styles from "./values.module.css";
import { argumentViews, isObject, viewOf, type ArgumentView, type Json as JsonValue } from "./view";

interface ArgumentsProps {
  /** The JSON Schema of the tool, where it is known: it says what the arguments are. */
  readonly schema?: object | null;
  readonly arguments: unknown;
  /** What the raw view shows, when that is something else than the arguments. */
  readonly raw?: unknown;
}

/** The arguments of a call in the view that fits them, with the raw JSON one key away. */
export function Arguments({ schema, arguments: value, raw }: ArgumentsProps) {
  const [isRaw, setRaw] = useState(false);
  const json = value as JsonValue | undefined;
  return (
    <div className={styles.arguments}>
      <div className={styles.switch}>
        <button
          type="button"
          className={styles.toggle}
          aria-pressed={isRaw}
          onClick={() => setRaw(!isRaw)}
        >
          {messages.values.raw}
        </button>
      </div>
      {isRaw ? (
        <Json
          value={(raw === undefined ? json : (raw as JsonValue)) ?? null}
          label={messages.values.rawArguments}
        />
      ) : (
        <Fitting value={json ?? null} schema={schema ?? {}} />
      )}
    </div>
  );
}

function Fitting({ value, schema }: { value: JsonValue; schema: object }) {
  if (!isObject(value)) {
    return value === null ? (
      <p className={styles.quiet}>{messages.values.noArguments}</p>
    ) : (
      <Value view={viewOf(value)} label={messages.values.arguments} />
    );
  }
  const views = argumentViews(value, schema);
  if (views.length === 0) return <p className={styles.quiet}>{messages.values.noArguments}</p>;
  return (
    <dl className={styles.members}>
      {views.map((view) => (
        <Member key={view.kind === "member" ? view.name : view.names.join()} view={view} />
      ))}
    </dl>
  );
}

function Member({ view }: { view: ArgumentView }) {
  const id = useId();
  if (view.kind === "change") {
    const [before, after] = view.names;
    return (
      <div className={styles.wideMember}>
        <dt>{messages.values.change(showable(before), showable(after))}</dt>
        <dd>
          <Diff before={view.before} after={view.after} />
        </dd>
      </div>
    );
  }
  const isShort = view.view.kind === "scalar";
  return (
    <div className={isShort ? styles.member : styles.wideMember}>
      <dt id={id} title={view.about === undefined ? undefined : showable(view.about)}>
        <Text text={view.name} />
      </dt>
      <dd aria-labelledby={id}>
        <Value view={view.view} label={showable(view.name)} />
      </dd>
    </div>
  );
}
