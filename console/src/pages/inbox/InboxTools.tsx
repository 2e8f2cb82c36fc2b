import { Bell, Keyboard } from "lucide-react";
import { useEffect, useState } from "react";

import { KEYS, meaningOf, type InboxKey } from "@/pages/inbox/keys";
import { useNotifications } from "@/pages/inbox/notifications";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog } from "@/parts/Dialog";

/** Notifications, and the list of keys. */
export function InboxTools() {
  const [choice, toggle] = useNotifications();
  const [isHelpOpen, setIsHelpOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (meaningOf(event) === "help") setIsHelpOpen(true);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      {choice !== "impossible" && (
        <Button
          onClick={toggle}
          aria-pressed={choice === "on"}
          disabled={choice === "refused"}
          title={choice === "refused" ? messages.inbox.notifyDenied : undefined}
        >
          <Bell aria-hidden size={16} />
          {choice === "on" ? messages.inbox.notifyOn : messages.inbox.notify}
        </Button>
      )}
      <Button onClick={() => setIsHelpOpen(true)} aria-keyshortcuts={KEYS.help}>
        <Keyboard aria-hidden size={16} />
        {messages.inbox.help}
        <kbd aria-hidden>{KEYS.help}</kbd>
      </Button>
      <Dialog
        open={isHelpOpen}
        onClose={() => setIsHelpOpen(false)}
        title={messages.inbox.helpTitle}
        description={`${messages.inbox.helpEnter} ${messages.inbox.final}`}
      >
        <dl className={styles.keys}>
          {(Object.keys(messages.inbox.helpKeys) as InboxKey[]).map((name) => (
            <div key={name}>
              <dt>
                <kbd>{KEYS[name]}</kbd>
              </dt>
              <dd>{messages.inbox.helpKeys[name]}</dd>
            </div>
          ))}
        </dl>
      </Dialog>
    </>
  );
}
