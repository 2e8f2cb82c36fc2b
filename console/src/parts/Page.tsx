import { useEffect, type ReactNode } from "react";

import styles from "@/parts/Page.module.css";
import { setPageTitle } from "@/shell/title";

/** The frame of a page: its heading, its actions and its content. */
export function Page({
  title,
  lead,
  actions,
  wide = false,
  children,
}: {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
  children: ReactNode;
}) {
  useEffect(() => setPageTitle(title), [title]);
  return (
    <div className={wide ? styles.wide : styles.page}>
      <header className={styles.header}>
        <div>
          <h1>{title}</h1>
          {lead !== undefined && <p className={styles.lead}>{lead}</p>}
        </div>
        {actions !== undefined && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** A framed part of a page. */
export function Card({ children, label }: { children: ReactNode; label?: string }) {
  return (
    <section className={styles.card} {...(label === undefined ? {} : { "aria-label": label })}>
      {children}
    </section>
  );
}
