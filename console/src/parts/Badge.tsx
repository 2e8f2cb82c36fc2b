import type { ReactNode } from "react";

import styles from "@/parts/Badge.module.css";

export type Tone = "plain" | "accent" | "good" | "bad" | "warn" | "waiting";

/** A short word about a thing, such as its place or its state. */
export function Badge({
  tone = "plain",
  title,
  children,
}: {
  tone?: Tone;
  title?: string;
  children: ReactNode;
}) {
  return (
    <span className={`${styles.badge} ${styles[tone]}`} title={title}>
      {children}
    </span>
  );
}
