import { useEffect, useState } from "react";

import { messages } from "@/messages";
import { CopyButton } from "@/parts/CopyButton";
import { Text } from "@/parts/untrusted";

import { Cut } from "./Cut";
import { readPatch, sizeOf, type PatchFile, type PatchLine } from "./patch";
import styles from "./values.module.css";

const MOST_LINES = 300;

/** A patch: what goes and what comes, file by file. */
export function PatchDiff({ text }: { text: string }) {
  const files = readPatch(text) ?? [];
  return <FilesDiff files={files} copied={text} />;
}

/** The difference of two texts. */
export function Diff({
  before,
  after,
  name = "",
}: {
  before: string;
  after: string;
  name?: string;
}) {
  const lines = useDifference(before, after);
  if (lines === null) return <p className={styles.quiet}>{messages.parts.loading}</p>;
  if (lines.length === 0) return <p className={styles.quiet}>{messages.values.noDifference}</p>;
  return <FilesDiff files={[{ path: name, change: "changed", lines }]} copied={after} />;
}

function useDifference(before: string, after: string): readonly PatchLine[] | null {
  const [result, setResult] = useState<{ key: string; lines: readonly PatchLine[] } | null>(null);
  const key = JSON.stringify([before, after]);
  useEffect(() => {
    let isGone = false;
    void import("./difference").then(({ difference }) => {
      if (!isGone) setResult({ key, lines: difference(before, after) });
    });
    return () => {
      isGone = true;
    };
  }, [before, after, key]);
  return result !== null && result.key === key ? result.lines : null;
}

/** Files with their lines, however they were read. */
export function FilesDiff({ files, copied }: { files: readonly PatchFile[]; copied?: string }) {
  const size = sizeOf(files);
  return (
    <div className={styles.block}>
      <p className={`${styles.quiet} ${styles.size}`}>
        {messages.values.diffSize(size.added, size.removed)}
        {copied === undefined ? null : <CopyButton text={copied} />}
      </p>
      {files.map((file, index) => (
        <FileDiff key={index} file={file} />
      ))}
    </div>
  );
}

function FileDiff({ file }: { file: PatchFile }) {
  return (
    <figure className={styles.file}>
      {file.path === "" ? null : (
        <figcaption className={styles.path}>
          <Text text={file.path} />{" "}
          <span className={styles.quiet}>
            {messages.values.fileChange[file.change]}
            {file.movedTo === undefined ? null : (
              <>
                {" "}
                <Text text={file.movedTo} />
              </>
            )}
          </span>
        </figcaption>
      )}
      <Cut
        items={file.lines}
        most={MOST_LINES}
        unit="lines"
        render={(lines) => (
          <pre
            className={styles.code}
            tabIndex={0}
            role="group"
            aria-label={messages.values.difference}
          >
            {lines.map((line, index) => (
              <DiffLine key={index} line={line} />
            ))}
          </pre>
        )}
      />
    </figure>
  );
}

const SIGNS = { added: "+", removed: "-", context: " ", place: "" } as const;

function DiffLine({ line }: { line: PatchLine }) {
  const text = (
    <>
      <span className={styles.sign}>{SIGNS[line.kind]}</span>
      <Text text={line.text} lines />
      {"\n"}
    </>
  );
  switch (line.kind) {
    case "added":
      return <ins className={styles.added}>{text}</ins>;
    case "removed":
      return <del className={styles.removed}>{text}</del>;
    case "context":
    case "place":
      return <span className={line.kind === "place" ? styles.place : styles.context}>{text}</span>;
  }
}
