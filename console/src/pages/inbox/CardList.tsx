import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";

import type { Approval } from "@/api/inbox";
import styles from "@/pages/inbox/inbox.module.css";

const USUAL_HEIGHT = 420;

/** Many cards, of which only those in sight are in the page. `activeId` is scrolled into sight. */
export function CardList({
  approvals,
  activeId,
  render,
  onEnd,
}: {
  approvals: readonly Approval[];
  activeId: string | null;
  render: (approval: Approval) => ReactNode;
  onEnd: () => void;
}) {
  const list = useRef<HTMLUListElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const box = list.current?.getBoundingClientRect();
    if (box !== undefined) setTop(box.top + window.scrollY);
  }, []);
  const virtual = useWindowVirtualizer({
    count: approvals.length,
    estimateSize: () => USUAL_HEIGHT,
    overscan: 2,
    scrollMargin: top,
    getItemKey: (index) => approvals[index]?.approval_id ?? index,
  });
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= approvals.length - 20) onEnd();
  }, [last, approvals.length, onEnd]);
  const activeIndex = approvals.findIndex((each) => each.approval_id === activeId);
  const hasActive = rows.some((row) => row.index === activeIndex);
  const lastActive = useRef<string | null>(null);
  useEffect(() => {
    // Only when another card becomes the active one: who scrolls away from it may.
    if (lastActive.current === activeId) return;
    lastActive.current = activeId;
    if (activeIndex >= 0 && !hasActive) virtual.scrollToIndex(activeIndex, { align: "start" });
  });
  return (
    <ul ref={list} className={styles.list} style={{ height: virtual.getTotalSize() }}>
      {rows.map((row) => {
        const approval = approvals[row.index];
        if (approval === undefined) return null;
        return (
          <li
            key={row.key}
            ref={virtual.measureElement}
            data-index={row.index}
            aria-setsize={approvals.length}
            aria-posinset={row.index + 1}
            className={styles.item}
            style={{ transform: `translateY(${row.start - virtual.options.scrollMargin}px)` }}
          >
            {render(approval)}
          </li>
        );
      })}
    </ul>
  );
}
