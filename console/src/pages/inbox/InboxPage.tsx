import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";

import { api, dataOf } from "@/api/client";
import type { Question } from "@/api/inbox";
import { can, useMe } from "@/api/principal";
import { ApprovalCard } from "@/pages/inbox/ApprovalCard";
import { BulkBar } from "@/pages/inbox/BulkBar";
import { CardList } from "@/pages/inbox/CardList";
import { DecisionDialogs } from "@/pages/inbox/DecisionDialogs";
import { InboxFilterBar } from "@/pages/inbox/InboxFilterBar";
import { InboxTools } from "@/pages/inbox/InboxTools";
import { requestsOf, useInbox } from "@/pages/inbox/list";
import { LinkedRequest } from "@/pages/inbox/LinkedRequest";
import { QuestionCard } from "@/pages/inbox/QuestionCard";
import styles from "@/pages/inbox/inbox.module.css";
import { useInboxDesk } from "@/pages/inbox/desk";
import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";

/** Everything that waits for a person: requests by deadline, and questions of running calls. */
export function InboxPage() {
  const search = useSearch({ from: "/shell/inbox" });
  const navigate = useNavigate();
  const { approval: linkedId, ...filters } = search;
  const inbox = useInbox(filters);
  const approvals = useMemo(() => requestsOf(inbox.data?.pages), [inbox.data]);
  const total = inbox.data?.pages.at(0)?.total ?? 0;
  const questions = useQuestions();
  const desk = useInboxDesk(approvals, linkedId ?? null);
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = inbox;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const isFiltered = Object.keys(filters).length > 0;
  const isEmpty = approvals.length === 0 && questions.length === 0 && linkedId === undefined;
  return (
    <Page
      title={messages.inbox.title}
      lead={
        inbox.data === undefined
          ? undefined
          : `${messages.inbox.lead(total)} ${total > 0 ? messages.inbox.final : ""}`
      }
      actions={<InboxTools />}
    >
      <InboxFilterBar
        approvals={approvals}
        filters={filters}
        onChange={(next) => void navigate({ to: "/inbox", search: next })}
      />
      {linkedId !== undefined && <LinkedRequest approvalId={linkedId} desk={desk} />}
      <Questions questions={questions} />
      {inbox.isPending && <LoadingState />}
      {inbox.isError && approvals.length === 0 && (
        <ErrorState error={inbox.error} onRetry={() => void inbox.refetch()} />
      )}
      {inbox.isSuccess && isEmpty && <NothingWaits isFiltered={isFiltered} />}
      <CardList
        approvals={approvals}
        activeId={desk.activeId}
        onEnd={onEnd}
        render={(approval) => (
          <ApprovalCard
            approval={approval}
            isActive={desk.activeId === approval.approval_id}
            isSelected={desk.selected.has(approval.approval_id)}
            isBusy={desk.busyId === approval.approval_id}
            outcome={desk.notes.get(approval.approval_id) ?? null}
            onActive={desk.setActive}
            onSelect={desk.toggle}
            onWay={desk.choose}
          />
        )}
      />
      {isFetchingNextPage && <LoadingState label={messages.inbox.loadingMore} />}
      <BulkBar desk={desk} />
      {desk.dialog !== null && (
        <DecisionDialogs
          {...desk.dialog}
          onClose={desk.closeDialog}
          onOutcome={desk.settleDialog}
        />
      )}
    </Page>
  );
}

function useQuestions(): Question[] {
  const me = useMe();
  const query = useQuery({
    queryKey: ["questions"],
    queryFn: async () => dataOf(await api.GET("/v1/questions")).questions as Question[],
    enabled: can(me, "caller", "auditor"),
  });
  return query.data ?? [];
}

function Questions({ questions }: { questions: Question[] }) {
  const me = useMe();
  const [canAnswer] = useState(() => can(me, "caller"));
  if (questions.length === 0) return null;
  return (
    <section aria-label={messages.inbox.questions} className={styles.questions}>
      {questions.map((question) => (
        <QuestionCard key={question.question_id} question={question} canAnswer={canAnswer} />
      ))}
    </section>
  );
}

function NothingWaits({ isFiltered }: { isFiltered: boolean }) {
  const me = useMe();
  if (isFiltered) {
    return (
      <EmptyState title={messages.inbox.emptyFiltered}>
        <Link to="/inbox">{messages.inbox.clearFilters}</Link>
      </EmptyState>
    );
  }
  const mayRead = can(me, "caller", "auditor");
  return (
    <EmptyState title={messages.inbox.empty}>
      <p>{mayRead ? messages.inbox.emptyHint : messages.inbox.emptyHintApprover}</p>
      {mayRead && (
        <p className={styles.links}>
          <Link to="/tools">{messages.inbox.toTools}</Link>
          <Link to="/sessions">{messages.inbox.toSessions}</Link>
        </p>
      )}
    </EmptyState>
  );
}
