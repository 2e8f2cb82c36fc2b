import { X } from "lucide-react";
import { Toast as Radix } from "radix-ui";
import { createContext, useCallback, useContext, useMemo, useState, type ReactNode } from "react";

import { messages } from "@/messages";
import styles from "@/parts/Toast.module.css";
import { Text } from "@/parts/untrusted";

export interface ToastText {
  title: ReactNode;
  detail?: ReactNode;
  tone?: "plain" | "good" | "bad";
}

interface ShownToast extends ToastText {
  id: number;
}

const Toasts = createContext<(toast: ToastText) => void>(() => undefined);

/** The function that says something at the edge of the page; screen readers read it too. */
export function useToast(): (toast: ToastText) => void {
  return useContext(Toasts);
}

let lastId = 0;

/** Sentences name tools and people, who chose their names themselves. */
function spoken(words: ReactNode): ReactNode {
  return typeof words === "string" ? <Text text={words} /> : words;
}

export function ToastProvider({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<ShownToast[]>([]);
  const show = useCallback((toast: ToastText) => {
    lastId += 1;
    setShown((toasts) => [...toasts.slice(-3), { ...toast, id: lastId }]);
  }, []);
  const remove = useCallback((id: number) => {
    setShown((toasts) => toasts.filter((toast) => toast.id !== id));
  }, []);
  const viewport = useMemo(() => <Radix.Viewport className={styles.viewport} />, []);
  return (
    <Toasts value={show}>
      <Radix.Provider duration={7000}>
        {children}
        {shown.map((toast) => (
          <Radix.Root
            key={toast.id}
            className={`${styles.toast} ${styles[toast.tone ?? "plain"]}`}
            onOpenChange={(isOpen) => !isOpen && remove(toast.id)}
          >
            <div>
              <Radix.Title className={styles.title}>{spoken(toast.title)}</Radix.Title>
              {toast.detail !== undefined && (
                <Radix.Description>{spoken(toast.detail)}</Radix.Description>
              )}
            </div>
            <Radix.Close className={styles.close} aria-label={messages.parts.dismiss}>
              <X aria-hidden size={16} />
            </Radix.Close>
          </Radix.Root>
        ))}
        {viewport}
      </Radix.Provider>
    </Toasts>
  );
}
