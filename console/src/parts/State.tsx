import { CircleAlert, Inbox, WifiOff } from "lucide-react";
import type { ReactNode } from "react";

import { ApiError } from "@/api/client";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import styles from "@/parts/State.module.css";

/** Nothing is there: says so, and what to do next. */
export function EmptyState({
  title,
  children,
  icon,
}: {
  title: ReactNode;
  children?: ReactNode;
  icon?: ReactNode;
}) {
  return (
    <div className={styles.state}>
      {icon ?? <Inbox aria-hidden size={28} />}
      <p className={styles.title}>{title}</p>
      {children}
    </div>
  );
}

/** Something failed: says what, and offers to try again. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const isOffline = error instanceof ApiError && error.isOffline;
  const isForbidden = error instanceof ApiError && error.status === 403;
  return (
    <div className={styles.state} role="alert">
      {isOffline ? <WifiOff aria-hidden size={28} /> : <CircleAlert aria-hidden size={28} />}
      <p className={styles.title}>
        {isOffline
          ? messages.parts.offline
          : isForbidden
            ? messages.parts.forbidden
            : messages.parts.failed}
      </p>
      <p>{isOffline ? messages.parts.offlineHint : wordsOf(error)}</p>
      {onRetry !== undefined && <Button onClick={onRetry}>{messages.parts.retry}</Button>}
    </div>
  );
}

/** What an error says to a person. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : messages.parts.failed;
}

/** Something is on its way. */
export function LoadingState({ label = messages.parts.loading }: { label?: string }) {
  return (
    <div className={styles.loading} role="status">
      <span className={styles.spinner} aria-hidden />
      {label}
    </div>
  );
}
