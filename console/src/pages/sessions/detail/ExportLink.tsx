import { Download } from "lucide-react";

import { messages } from "@/messages";

import styles from "./detail.module.css";

/** Saves all events of a session as JSON, one per line. */
export function ExportLink({ sessionId }: { sessionId: string }) {
  return (
    <a
      className={styles.export}
      href={`/v1/sessions/${encodeURIComponent(sessionId)}/export`}
      download
    >
      <Download aria-hidden size={16} /> {messages.detail.export}
    </a>
  );
}
