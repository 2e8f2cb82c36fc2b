import { messages } from "@/messages";
import { Text } from "@/parts/untrusted";

import { Code } from "./Code";
import { Cut } from "./Cut";
import { PatchDiff } from "./Diff";
import { Json } from "./Json";
import { ValueTable } from "./ValueTable";
import styles from "./values.module.css";
import type { View } from "./view";

const MOST_LINES = 200;

/** A value in the view that was chosen for it. */
export function Value({ view, label }: { view: View; label?: string }) {
  switch (view.kind) {
    case "patch":
      return <PatchDiff text={view.text} />;
    case "code":
      return <Code text={view.text} language={view.language} label={label} />;
    case "text":
      return <LongText text={view.text} />;
    case "table":
      return <ValueTable columns={view.columns} rows={view.rows} label={label} />;
    case "scalar":
      if (view.text === "")
        return <span className={styles.empty}>{messages.values.emptyText}</span>;
      return (
        <span className={styles.scalar}>
          <Text text={view.text} lines />
        </span>
      );
    case "json":
      return <Json value={view.value} label={label} />;
  }
}

/** Text of many lines, of which the first are shown. */
export function LongText({ text }: { text: string }) {
  return (
    <Cut
      items={text.split("\n")}
      most={MOST_LINES}
      unit="lines"
      render={(lines) => (
        <div className={styles.text}>
          <Text text={lines.join("\n")} lines />
        </div>
      )}
    />
  );
}
