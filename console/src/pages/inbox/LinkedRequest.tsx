import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, dataOf } from "@/api/client";
import type { Approval } from "@/api/inbox";
import { ApprovalCard } from "@/pages/inbox/ApprovalCard";
import type { Desk } from "@/pages/inbox/desk";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { ErrorState, LoadingState } from "@/parts/State";

/** The request that a link leads to, open or decided, before all others. */
export function LinkedRequest({ approvalId, desk }: { approvalId: string; desk: Desk }) {
  const one = useQuery({
    queryKey: ["approvals", "one", approvalId],
    queryFn: async () => {
      const params = { path: { approval_id: approvalId } };
      return dataOf(await api.GET("/v1/approvals/{approval_id}", { params })) as Approval;
    },
  });
  return (
    <section aria-label={messages.inbox.one} className={styles.questions}>
      <p className={styles.quiet}>
        {messages.inbox.one}. <Link to="/inbox">{messages.inbox.showInbox}</Link>
      </p>
      {one.isPending && <LoadingState />}
      {one.isError && <ErrorState error={one.error} onRetry={() => void one.refetch()} />}
      {one.data !== undefined && (
        <ApprovalCard
          approval={one.data}
          isActive={false}
          isSelected={desk.selected.has(approvalId)}
          isBusy={desk.busyId === approvalId}
          outcome={desk.notes.get(approvalId) ?? null}
          onActive={desk.setActive}
          onSelect={desk.toggle}
          onWay={desk.choose}
        />
      )}
    </section>
  );
}
