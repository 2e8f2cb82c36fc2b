import { useEffect } from "react";

import { useInboxFeed, useWaitingCount } from "@/api/inbox";
import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { setWaitingCount } from "@/shell/title";

/** How many calls wait for a decision, here and in the title of the tab. */
export function WaitingCount() {
  useInboxFeed();
  const count = useWaitingCount();
  useEffect(() => setWaitingCount(count), [count]);
  if (count === 0) return null;
  return (
    <Badge tone="waiting" title={messages.shell.waiting(count)}>
      {count.toLocaleString("en")}
    </Badge>
  );
}
