import { Tooltip as Radix } from "radix-ui";
import type { ReactNode } from "react";

import styles from "@/parts/Menu.module.css";

/** A hint on hover and focus. `children` is one element that takes a ref. */
export function Tooltip({ text, children }: { text: ReactNode; children: ReactNode }) {
  return (
    <Radix.Provider delayDuration={300}>
      <Radix.Root>
        <Radix.Trigger asChild>{children}</Radix.Trigger>
        <Radix.Portal>
          <Radix.Content className={`${styles.content} ${styles.label}`} sideOffset={4}>
            {text}
          </Radix.Content>
        </Radix.Portal>
      </Radix.Root>
    </Radix.Provider>
  );
}
