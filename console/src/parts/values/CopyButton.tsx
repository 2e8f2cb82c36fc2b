import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";

import { messages } from "@/messages";

import styles from "./values.module.css";

const SHOWN_MS = 2000;

/** Copies a text. `label` says what it copies. */
export function CopyButton({ text, label = messages.parts.copy }: { text: string; label?: string }) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  useEffect(() => {
    if (state === "ready") return;
    const timer = setTimeout(() => setState("ready"), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setState("copied"),
      () => setState("failed"),
    );
  };
  const word =
    state === "copied" ? messages.parts.copied : state === "failed" ? messages.values.copyFailed : label;
  return (
    <button type="button" className={styles.copy} onClick={copy}>
      {state === "copied" ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />}
      <span aria-live="polite">{word}</span>
    </button>
  );
}
