import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { lazy, Suspense, useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import styles from "@/pages/activity/Activity.module.css";
import { callsFile, callsQuery, sumsQuery } from "@/pages/activity/calls";
import { CallTable } from "@/pages/activity/CallTable";
import { FilterBar } from "@/pages/activity/FilterBar";
import {
  bucketOf,
  isFiltered,
  readSearch,
  spanOf,
  STATUSES,
  withoutEmpty,
  type ActivitySearch,
  type Bucket,
} from "@/pages/activity/filters";
import { pointName, pointsOf, totalsOf, type Point, type Totals } from "@/pages/activity/series";
import { TopList } from "@/pages/activity/TopList";
import { Button } from "@/parts/Button";
import { saveFile } from "@/parts/download";
import { duration, money } from "@/parts/format";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState, wordsOf } from "@/parts/State";
import { Table } from "@/parts/Table";
import { useToast } from "@/parts/Toast";

const words = messages.activity;
const route = getRouteApi("/shell/activity");

const ActivityCharts = lazy(async () => ({
  default: (await import("@/pages/activity/ActivityCharts")).ActivityCharts,
}));

export function ActivityPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const me = useMe();
  const change = (changes: object) =>
    void navigate({
      search: (before) => readSearch(withoutEmpty({ ...before, ...changes })),
      replace: true,
    });
  const times = withoutEmpty({ range: search.range, from: search.from, to: search.to });
  return (
    <Page
      wide
      title={words.title}
      lead={can(me, "auditor") ? words.lead : words.leadOwn}
      actions={<DownloadButton search={search} />}
    >
      <FilterBar
        search={search}
        onChange={change}
        onClear={() => void navigate({ search: times, replace: true })}
      />
      <Overview search={search} onChange={change} />
      <CallList search={search} onChange={change} />
    </Page>
  );
}

function DownloadButton({ search }: { search: ActivitySearch }) {
  const toast = useToast();
  const download = useMutation({
    mutationFn: () => callsFile(search),
    onSuccess: (file) => {
      saveFile(file, "calls.csv");
      toast({ title: words.downloaded, tone: "good" });
    },
    onError: (error) => toast({ title: words.downloadFailed, detail: wordsOf(error), tone: "bad" }),
  });
  return (
    <Button onClick={() => download.mutate()} disabled={download.isPending}>
      <Download aria-hidden size={16} />
      {download.isPending ? words.downloading : words.download}
    </Button>
  );
}

interface PartProps {
  search: ActivitySearch;
  onChange: (changes: object) => void;
}

/** Totals, charts and who is at the top. The table below stands without them. */
function Overview({ search, onChange }: PartProps) {
  const [opened] = useState(() => Math.floor(Date.now() / 1000));
  const bucket = bucketOf(spanOf(search, opened));
  const sums = useQuery(sumsQuery(search, bucket));
  const tools = useQuery(sumsQuery(search, "tool"));
  const principals = useQuery(sumsQuery(search, "principal"));
  const statuses = useQuery(sumsQuery(search, "status"));
  if (sums.isPending) return <LoadingState />;
  if (sums.isError) return <ErrorState error={sums.error} onRetry={() => void sums.refetch()} />;
  const totals = totalsOf(sums.data);
  if (totals.calls + totals.requests === 0) return null;
  const now = Math.floor(sums.dataUpdatedAt / 1000);
  const points = pointsOf(sums.data, spanOf(search, now), bucket);
  return (
    <>
      <TotalFacts totals={totals} />
      <Suspense fallback={<LoadingState />}>
        <ActivityCharts points={points} bucket={bucket} showsModels={search.kind === "model"} />
      </Suspense>
      <Numbers points={points} bucket={bucket} />
      <div className={styles.tops}>
        <TopList
          title={words.topTools}
          sums={tools.data ?? []}
          onChoose={(tool) => onChange({ tool })}
        />
        <TopList
          title={words.topPrincipals}
          sums={principals.data ?? []}
          onChoose={(principal) => onChange({ principal })}
        />
        <TopList
          title={words.byStatus}
          sums={statuses.data ?? []}
          nameOf={(key) => words.statuses[STATUSES.find((status) => status === key) ?? "failed"]}
          onChoose={(status) => onChange({ status })}
        />
      </div>
    </>
  );
}

function TotalFacts({ totals }: { totals: Totals }) {
  const facts: [string, string, string?][] = [
    [words.calls, totals.calls.toLocaleString("en")],
    [words.failures, totals.failures.toLocaleString("en")],
    [words.waited, duration(totals.waited)],
    [words.requests, totals.requests.toLocaleString("en")],
    [
      words.cost,
      totals.cost === null && totals.unpriced === 0 ? money(0) : money(totals.cost),
      totals.unpriced > 0 ? words.unpriced(totals.unpriced) : undefined,
    ],
  ];
  return (
    <section aria-label={words.totals}>
      <dl className={styles.totals}>
        {facts.map(([label, value, hint]) => (
          <div key={label} className={styles.total}>
            <dt>{label}</dt>
            <dd>
              {value}
              {hint !== undefined && <small>{hint}</small>}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** What the charts show, for whoever does not see them. */
function Numbers({ points, bucket }: { points: Point[]; bucket: Bucket }) {
  const rows = points.filter((point) => point.succeeded + point.failures + point.requests > 0);
  return (
    <details className={styles.numbers}>
      <summary>{words.numbers}</summary>
      <Table
        caption={words.numbers}
        rows={rows}
        rowKey={(point) => String(point.at)}
        columns={[
          { id: "at", label: words.time, cell: (point) => pointName(point.at, bucket) },
          {
            id: "calls",
            label: words.calls,
            align: "end",
            cell: (point) => point.succeeded + point.failures,
          },
          { id: "failures", label: words.failures, align: "end", cell: (point) => point.failures },
          {
            id: "waited",
            label: words.waited,
            align: "end",
            cell: (point) => duration(point.waited),
          },
          { id: "requests", label: words.requests, align: "end", cell: (point) => point.requests },
          { id: "cost", label: words.cost, align: "end", cell: (point) => money(point.cost) },
        ]}
      />
    </details>
  );
}

function CallList({ search, onChange }: PartProps) {
  const calls = useInfiniteQuery(callsQuery(search));
  if (calls.isPending) return <LoadingState />;
  if (calls.isError) return <ErrorState error={calls.error} onRetry={() => void calls.refetch()} />;
  const rows = calls.data.pages.flatMap((page) => page.calls);
  if (rows.length === 0) {
    return (
      <EmptyState title={isFiltered(search) ? words.emptyFiltered : words.empty}>
        <p>{words.emptyHint}</p>
        <Link to="/tools">{words.tryTool}</Link>
        {search.range !== "30d" && (
          <Button onClick={() => onChange({ range: "30d", from: undefined, to: undefined })}>
            {words.longer}
          </Button>
        )}
      </EmptyState>
    );
  }
  return (
    <CallTable
      rows={rows}
      hasMore={calls.hasNextPage}
      isLoading={calls.isFetchingNextPage}
      onMore={() => void calls.fetchNextPage()}
    />
  );
}
