import { useQuery } from "@tanstack/react-query";
import { Outlet } from "@tanstack/react-router";

import { ApiError } from "@/api/client";
import { meQuery } from "@/api/principal";
import { messages } from "@/messages";
import { ErrorState, LoadingState } from "@/parts/State";
import { ConnectionBanner } from "@/shell/ConnectionBanner";
import { Navigation } from "@/shell/Navigation";
import { SignedOutDialog } from "@/shell/SignedOutDialog";
import { ToSignIn } from "@/shell/ToSignIn";
import styles from "@/shell/Shell.module.css";

/** The frame around every page but the sign-in: navigation, connection, and who is signed in. */
export function Shell() {
  const me = useQuery(meQuery);
  if (me.isPending) return <LoadingState />;
  if (me.isError) {
    const isUnknown = me.error instanceof ApiError && me.error.status === 401;
    return isUnknown ? (
      <ToSignIn />
    ) : (
      <ErrorState error={me.error} onRetry={() => void me.refetch()} />
    );
  }
  return (
    <div className={styles.shell}>
      <a href="#content" className={styles.skip}>
        {messages.shell.skip}
      </a>
      <Navigation me={me.data} />
      <main id="content" className={styles.content} tabIndex={-1}>
        <ConnectionBanner />
        <Outlet />
      </main>
      <SignedOutDialog me={me.data} />
    </div>
  );
}
