import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";

import styles from "@/parts/Menu.module.css";

export interface MenuItem {
  label: ReactNode;
  onSelect: () => void;
  tone?: "plain" | "danger";
  isDisabled?: boolean;
}

/** A menu of actions behind a button. `trigger` is one element that takes a ref. */
export function Menu({
  trigger,
  label,
  items,
}: {
  trigger: ReactNode;
  label?: ReactNode;
  items: MenuItem[];
}) {
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className={styles.content} align="end" sideOffset={4}>
          {label !== undefined && (
            <DropdownMenu.Label className={styles.label}>{label}</DropdownMenu.Label>
          )}
          {items.map((item, index) => (
            <DropdownMenu.Item
              key={index}
              className={`${styles.item} ${item.tone === "danger" ? styles.danger : ""}`}
              disabled={item.isDisabled ?? false}
              onSelect={item.onSelect}
            >
              {item.label}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
