import { useCallback, useState } from "react";

import { useInboxChanges, type InboxState } from "@/api/inbox";
import { messages } from "@/messages";

const WANTED = "toolcrib.notifications";

/** Whether a person gets desktop notifications: only those who clicked, and whose browser agrees. */
export type NotificationChoice = "off" | "on" | "refused" | "impossible";

function choiceNow(): NotificationChoice {
  if (!("Notification" in window)) return "impossible";
  if (Notification.permission === "denied") return "refused";
  const isWanted = localStorage.getItem(WANTED) === "yes";
  return isWanted && Notification.permission === "granted" ? "on" : "off";
}

/** The choice, and what a click on the button does. The browser is asked only then. */
export function useNotifications(): [NotificationChoice, () => void] {
  const [choice, setChoice] = useState(choiceNow);
  const onChange = useCallback(
    (state: InboxState) => {
      const isSeen = document.visibilityState === "visible" && document.hasFocus();
      if (choice !== "on" || isSeen || state.added.length === 0) return;
      const title = messages.inbox.newOnes(state.added.length);
      // The text of a call is not in it: a notification is seen by whoever passes the screen.
      const notice = new Notification(title, { body: messages.inbox.notice, tag: "toolcrib" });
      notice.onclick = () => window.focus();
    },
    [choice],
  );
  useInboxChanges(onChange);
  const toggle = useCallback(() => {
    if (choiceNow() === "on") {
      localStorage.removeItem(WANTED);
      setChoice(choiceNow());
      return;
    }
    localStorage.setItem(WANTED, "yes");
    void Notification.requestPermission().then(() => setChoice(choiceNow()));
  }, []);
  return [choice, toggle];
}
