import { MonitorSmartphone } from "lucide-react";
import { useState } from "react";

import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { Time } from "@/parts/Time";
import { showable, Text } from "@/parts/untrusted";
import { ConfirmDialog } from "@/pages/people/ConfirmDialog";
import {
  browserName,
  revokeSignIn,
  usePeopleAction,
  type SignInFacts,
} from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";

/** A browser that has signed in, and the way to end that. */
export function SignInRow({ signIn }: { signIn: SignInFacts }) {
  const [isOpen, setIsOpen] = useState(false);
  const end = usePeopleAction(revokeSignIn);
  const browser = browserName(signIn.browser);
  return (
    <li className={styles.row}>
      <div>
        <MonitorSmartphone aria-hidden size={16} />
        <span>
          <Text text={browser === "" ? messages.people.browser : browser} most={80} />
        </span>
        {signIn.is_own && <Badge tone="good">{messages.people.thisBrowser}</Badge>}
        <span className={styles.soft}>
          {messages.people.from} <Text text={signIn.address} />,{" "}
          {messages.people.by[signIn.signed_in_by]}
        </span>
        <span className={styles.soft}>
          {messages.people.used} <Time at={signIn.seen_at} />
        </span>
        <span className={styles.soft}>
          {messages.people.expires} <Time at={signIn.expires_at} />
        </span>
      </div>
      <div className={styles.buttons}>
        <Button
          size="small"
          look="danger"
          aria-label={messages.people.endOf(showable(browser), showable(signIn.principal))}
          onClick={() => setIsOpen(true)}
        >
          {messages.people.end}
        </Button>
      </div>
      <ConfirmDialog
        isOpen={isOpen}
        title={messages.people.endTitle(showable(signIn.principal))}
        text={signIn.is_own ? messages.people.endOwnHint : messages.people.endHint}
        action={messages.people.end}
        run={() => end.mutateAsync(signIn.id)}
        onClose={() => setIsOpen(false)}
      />
    </li>
  );
}
