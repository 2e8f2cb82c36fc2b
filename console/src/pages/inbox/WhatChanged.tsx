import type { ApprovalContext } from "@/api/inbox";
import { shortValue } from "@/pages/inbox/intent";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

/** What is different from the last approved call of the same tool, and in the tool itself. */
export function WhatChanged({ context }: { context: ApprovalContext }) {
  const { last_approved: last, argument_changes: changes, tool_changes: tool } = context;
  return (
    <div className={styles.changed} role="group" aria-label={messages.inbox.changes}>
      <h3 className={styles.label}>{messages.inbox.changes}</h3>
      {tool.length > 0 && (
        <div className={styles.warn}>
          <p>{messages.inbox.toolChanged}:</p>
          <ul>
            {tool.map((change) => (
              <li key={change}>
                <Text text={change} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {last === null ? (
        <p className={styles.quiet}>{messages.inbox.neverApproved}</p>
      ) : (
        <>
          <p className={styles.quiet}>
            <Text text={messages.inbox.lastApproved(last.by)} />, <Time at={last.at} />.{" "}
            {changes.length === 0 && messages.inbox.sameArguments}
            {last.was_edited && ` ${messages.inbox.wasEdited}`}
          </p>
          <ul className={styles.differences}>
            {changes.map((change) => (
              <li key={change.pointer}>
                <code>
                  <Text text={change.pointer.slice(1)} />
                </code>{" "}
                {change.change === "added" ? (
                  messages.inbox.added
                ) : (
                  <del>
                    <Text text={shortValue(change.before)} />
                  </del>
                )}
                {" → "}
                {change.change === "removed" ? (
                  messages.inbox.removed
                ) : (
                  <ins>
                    <Text text={shortValue(change.after)} />
                  </ins>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
