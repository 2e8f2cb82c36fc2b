import type { ReactNode } from "react";

import { messages } from "@/messages";

import { safeLink } from "./link";
import { showable } from "./showable";
import { Text } from "./Text";
import styles from "./untrusted.module.css";

/** What somebody wrote as a link: followed only when it is safe, and its host stands beside it. */
export function UntrustedLink({ href, children }: { href?: string; children?: ReactNode }) {
  const link = safeLink(href);
  if (link === null) {
    return (
      <span className={styles.deadLink}>
        {children}
        {href ? (
          <code className={styles.destination} title={messages.untrusted.deadLink}>
            <Text text={href} most={80} />
          </code>
        ) : null}
      </span>
    );
  }
  return (
    <a
      href={link.href}
      target="_blank"
      rel="noopener noreferrer nofollow"
      title={showable(link.href)}
    >
      {children}
      <span className={styles.destination}> ({showable(link.destination)})</span>
    </a>
  );
}
