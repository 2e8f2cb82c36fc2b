import { useState, type ReactNode } from "react";

import { messages } from "@/messages";

import styles from "./values.module.css";

interface CutProps<Item> {
  readonly items: readonly Item[];
  /** How many are shown before somebody asks for all. */
  readonly most: number;
  readonly unit: "lines" | "entries" | "rows";
  readonly render: (items: readonly Item[]) => ReactNode;
}

/** Items of which the first are shown, with a button for the rest. */
export function Cut<Item>({ items, most, unit, render }: CutProps<Item>) {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && items.length > most;
  return (
    <>
      {render(isCut ? items.slice(0, most) : items)}
      {isCut ? (
        <button type="button" className={styles.more} onClick={() => setWhole(true)}>
          {messages.values.showAll(items.length, unit)}
        </button>
      ) : null}
    </>
  );
}
