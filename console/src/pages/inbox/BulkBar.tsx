import { useState } from "react";

import type { Approval } from "@/api/inbox";
import { BulkDialog } from "@/pages/inbox/BulkDialog";
import type { Desk } from "@/pages/inbox/desk";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";

/** What to do with the selected requests. */
export function BulkBar({ desk }: { desk: Desk }) {
  const [open, setOpen] = useState<{
    decision: "approve" | "deny";
    approvals: readonly Approval[];
  } | null>(null);
  const count = desk.chosen.length;
  const start = (decision: "approve" | "deny") => setOpen({ decision, approvals: desk.chosen });
  return (
    <>
      {count > 0 && (
        <div className={styles.bulkBar} role="region" aria-label={messages.inbox.selected(count)}>
          <span aria-live="polite">{messages.inbox.selected(count)}</span>
          <Button onClick={() => start("approve")}>{messages.inbox.approveSelected}</Button>
          <Button look="danger" onClick={() => start("deny")}>
            {messages.inbox.denySelected}
          </Button>
          <Button look="quiet" onClick={desk.clear}>
            {messages.inbox.clearSelection}
          </Button>
        </div>
      )}
      {open !== null && (
        <BulkDialog
          {...open}
          onClose={() => {
            setOpen(null);
            desk.clear();
          }}
        />
      )}
    </>
  );
}
