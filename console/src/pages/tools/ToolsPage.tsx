import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";

import { catalogQuery } from "./catalog";
import { ToolFilters } from "./ToolFilters";
import styles from "./tools.module.css";
import { ToolTable } from "./ToolTable";

const WORDS = messages.tools;
const route = getRouteApi("/shell/tools");

/** Every tool of the runtime, with the rule in force and what its calls came to. */
export function ToolsPage() {
  const search = route.useSearch();
  const query = useInfiniteQuery({
    queryKey: ["catalog", "list", search],
    queryFn: ({ pageParam, client }) => client.fetchQuery(catalogQuery(search, pageParam)),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.cursor ?? undefined,
    placeholderData: (previous) => previous,
    refetchInterval: 30_000,
  });
  const pages = query.data?.pages ?? [];
  const entries = pages.flatMap((page) => page.tools);
  const [first] = pages;
  const isFiltered = Boolean(
    search.search || search.source || search.place || "withheld" in search,
  );
  return (
    <Page title={WORDS.title} lead={first === undefined ? undefined : lead(first)} wide>
      <ToolFilters search={search} sources={first?.sources ?? []} />
      <p className="sr-only" role="status">
        {first === undefined ? "" : WORDS.count(first.total)}
      </p>
      {query.isPending && <LoadingState />}
      {query.isError && pages.length === 0 && (
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      )}
      {first !== undefined && entries.length === 0 && <NoTools isFiltered={isFiltered} />}
      {entries.length > 0 && <ToolTable entries={entries} search={search} />}
      {query.hasNextPage && (
        <Button onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
          {WORDS.more}
        </Button>
      )}
    </Page>
  );
}

function lead(page: { total: number; of_everybody?: boolean }): string {
  const whose = page.of_everybody ? WORDS.ofEverybody : WORDS.ofYou;
  return `${WORDS.count(page.total)} ${whose}`;
}

function NoTools({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <EmptyState title={WORDS.noMatch}>{WORDS.noMatchHint}</EmptyState>;
  return (
    <EmptyState title={WORDS.empty}>
      <p>{WORDS.emptyHint}</p>
      <pre className={styles.sample}>{WORDS.emptySample}</pre>
    </EmptyState>
  );
}
