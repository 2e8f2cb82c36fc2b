import { KeyRound } from "lucide-react";
import { useState } from "react";

import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { Time, useNow } from "@/parts/Time";
import { ConfirmDialog } from "@/pages/people/ConfirmDialog";
import { isExpired, revokeToken, usePeopleAction, type TokenFacts } from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";
import { RotateDialog } from "@/pages/people/RotateDialog";

/** A token, without its secret, and what can be done with it. */
export function TokenRow({ token }: { token: TokenFacts }) {
  const [open, setOpen] = useState<"rotate" | "revoke" | null>(null);
  const revoke = usePeopleAction(revokeToken);
  const isOver = isExpired(token, useNow());
  return (
    <li className={styles.row}>
      <div>
        <KeyRound aria-hidden size={16} />
        <span>
          {messages.people.token} <code>{token.id}</code>
        </span>
        <span className={styles.soft}>
          {token.roles.join(", ")}
          {token.may_approve_own && `; ${messages.people.mayApproveOwn}`}
        </span>
        <span className={styles.soft}>
          {messages.people.made} <Time at={token.created_at} />
        </span>
        {isOver ? (
          <Badge tone="bad">{messages.people.expired}</Badge>
        ) : (
          <span className={styles.soft}>
            {messages.people.expires}{" "}
            {token.expires_at === null ? messages.parts.never : <Time at={token.expires_at} />}
          </span>
        )}
      </div>
      <div className={styles.buttons}>
        <Button
          size="small"
          aria-label={messages.people.replaceOf(token.id)}
          onClick={() => setOpen("rotate")}
        >
          {messages.people.replace}
        </Button>
        <Button
          size="small"
          look="danger"
          aria-label={messages.people.revokeOf(token.id)}
          onClick={() => setOpen("revoke")}
        >
          {messages.people.revoke}
        </Button>
      </div>
      <RotateDialog token={token} isOpen={open === "rotate"} onClose={() => setOpen(null)} />
      <ConfirmDialog
        isOpen={open === "revoke"}
        title={messages.people.revokeTitle(token.name)}
        text={messages.people.revokeHint}
        action={messages.people.revoke}
        run={() => revoke.mutateAsync(token.id)}
        onClose={() => setOpen(null)}
      />
    </li>
  );
}
