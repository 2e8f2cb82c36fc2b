import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { api, dataOf } from "@/api/client";
import type { components } from "@/api/schema";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";
import type { SessionsSearch } from "@/pages/sessions/search";
import { SessionFilters } from "@/pages/sessions/SessionFilters";
import { SessionTable } from "@/pages/sessions/SessionTable";
import styles from "@/pages/sessions/SessionsPage.module.css";

export type SessionFacts = components["schemas"]["SessionFacts"];

const PAGE = 50;
/** Lists of a few pages are looked at again often, longer ones seldom. */
const SOON = 4_000;
const LATER = 20_000;
const FEW = 3;

function useSessions(search: SessionsSearch) {
  return useInfiniteQuery({
    queryKey: ["sessions", search],
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) => {
      const cursor = pageParam === null ? {} : { cursor: pageParam };
      const query = { ...search, newest_first: true, limit: PAGE, ...cursor };
      return dataOf(await api.GET("/v1/sessions", { params: { query }, signal }));
    },
    getNextPageParam: (page) => page.cursor ?? null,
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) > FEW ? LATER : SOON),
    placeholderData: keepPreviousData,
  });
}

/** The sessions that one may see, with search and filters that stand in the address. */
export function SessionsPage() {
  const search = useSearch({ from: "/shell/sessions" });
  const navigate = useNavigate({ from: "/sessions" });
  const change = (next: SessionsSearch) => void navigate({ search: next, replace: true });
  return (
    <Page title={messages.sessions.title} lead={messages.sessions.lead} wide>
      <SessionFilters search={search} onChange={change} />
      <SessionList search={search} onClear={() => change({})} />
    </Page>
  );
}

function SessionList({ search, onClear }: { search: SessionsSearch; onClear: () => void }) {
  const query = useSessions(search);
  if (query.isPending) return <LoadingState />;
  if (query.data === undefined) {
    return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  }
  const sessions = query.data.pages.flatMap((page) => page.sessions);
  if (sessions.length === 0) {
    return Object.keys(search).length === 0 ? <NoSession /> : <NoMatch onClear={onClear} />;
  }
  return (
    <div className={styles.list} aria-busy={query.isPlaceholderData}>
      <SessionTable sessions={sessions} />
      <p className={styles.shown} role="status">
        {messages.sessions.shown(sessions.length)}
      </p>
      {query.hasNextPage && (
        <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {messages.sessions.more}
        </Button>
      )}
    </div>
  );
}

function NoSession() {
  const me = useMe();
  return (
    <EmptyState title={messages.sessions.none}>
      <p>{messages.sessions.noneHint}</p>
      {can(me, "caller") && <Link to="/chat">{messages.sessions.toChat}</Link>}
    </EmptyState>
  );
}

function NoMatch({ onClear }: { onClear: () => void }) {
  return (
    <EmptyState title={messages.sessions.noneFound}>
      <p>{messages.sessions.noneFoundHint}</p>
      <Button onClick={onClear}>{messages.sessions.clear}</Button>
    </EmptyState>
  );
}
