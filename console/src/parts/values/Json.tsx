import { useState } from "react";

import { messages } from "@/messages";
import { CopyButton } from "@/parts/CopyButton";
import { showable, Text } from "@/parts/untrusted";

import { Cut } from "./Cut";
import styles from "./values.module.css";
import { isObject, type Json as JsonValue } from "./view";

const MOST_ENTRIES = 50;
const MOST_CHARACTERS = 2_000;
/** How deep a tree is open at first. */
const OPEN_DEPTH = 2;

interface JsonProps {
  readonly value: JsonValue;
  readonly label?: string;
}

/** Any JSON as a tree that opens and closes, with the whole of it to copy. */
export function Json({ value, label = messages.values.json }: JsonProps) {
  return (
    <div className={styles.block} role="group" aria-label={label}>
      <CopyButton text={JSON.stringify(value, null, 2)} label={messages.values.copyJson} />
      <div className={styles.tree}>
        <Node value={value} depth={0} />
      </div>
    </div>
  );
}

interface NodeProps {
  readonly value: JsonValue;
  readonly depth: number;
  /** The name or place in what holds it. */
  readonly name?: string;
}

function Node({ value, depth, name }: NodeProps) {
  const key = name === undefined ? null : <Key name={name} />;
  if (value === null || typeof value !== "object") {
    return (
      <div className={styles.entry}>
        {key}
        <Scalar value={value} />
      </div>
    );
  }
  return <Branch value={value} depth={depth} name={name} />;
}

function Branch({ value, depth, name }: NodeProps) {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH);
  const entries: readonly (readonly [string, JsonValue])[] = isObject(value)
    ? Object.entries(value)
    : Array.isArray(value)
      ? (value as readonly JsonValue[]).map((each, index) => [String(index), each] as const)
      : [];
  const [opening, closing] = isObject(value) ? ["{", "}"] : ["[", "]"];
  if (entries.length === 0) {
    return (
      <div className={styles.entry}>
        {name === undefined ? null : <Key name={name} />}
        {opening}
        {closing}
      </div>
    );
  }
  const size = messages.values.entries(entries.length);
  return (
    <div className={styles.entry}>
      <button
        type="button"
        className={styles.twist}
        aria-expanded={isOpen}
        aria-label={messages.values.branch(showable(name ?? ""), size)}
        onClick={() => setOpen(!isOpen)}
      >
        <span aria-hidden>{isOpen ? "▾" : "▸"}</span>
        {name === undefined ? null : <Key name={name} />}
        <span>{opening}</span>
        {isOpen ? null : (
          <span className={styles.quiet}>
            {" "}
            {size} {closing}
          </span>
        )}
      </button>
      {isOpen ? (
        <div className={styles.branch}>
          <Cut
            items={entries}
            most={MOST_ENTRIES}
            unit="entries"
            render={(shown) =>
              shown.map(([key, each]) => (
                <Node key={key} name={key} value={each} depth={depth + 1} />
              ))
            }
          />
          <div>{closing}</div>
        </div>
      ) : null}
    </div>
  );
}

function Key({ name }: { name: string }) {
  return (
    <span className={styles.name}>
      <Text text={name} />:{" "}
    </span>
  );
}

function Scalar({ value }: { value: null | boolean | number | string }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== "string") return <span className={styles.number}>{String(value)}</span>;
  const isCut = !isWhole && value.length > MOST_CHARACTERS;
  return (
    <>
      <span className={styles.string}>
        <Text text={value} lines most={isCut ? MOST_CHARACTERS : undefined} />
      </span>
      {isCut ? (
        <button type="button" className={styles.more} onClick={() => setWhole(true)}>
          {messages.values.showCharacters(value.length)}
        </button>
      ) : null}
    </>
  );
}
