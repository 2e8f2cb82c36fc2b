import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, dataOf } from "@/api/client";
import { can, useMe, type Me } from "@/api/principal";
import type { components } from "@/api/schema";
import { messages } from "@/messages";
import { Badge, type Tone } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { duration, money } from "@/parts/format";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";
import { Table, type Column } from "@/parts/Table";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

import type { CatalogEntry } from "./catalog";
import styles from "./tool.module.css";

const WORDS = messages.history;
type Call = components["schemas"]["CallRow"];
type Calls = components["schemas"]["Calls"];

const TONES: Record<Call["status"], Tone> = {
  completed: "good",
  failed: "bad",
  denied: "bad",
  waiting: "waiting",
  approved: "accent",
  running: "accent",
  in_doubt: "warn",
};

/** The calls of a tool that the principal may see, newest first. */
export function History({ entry }: { entry: CatalogEntry }) {
  const me = useMe();
  const mayRead = can(me, "caller", "auditor");
  const query = useInfiniteQuery({
    queryKey: ["calls", "of", entry.id],
    enabled: mayRead,
    queryFn: async ({ pageParam }) => {
      const query = { tool: entry.name, source: entry.source, limit: 25, cursor: pageParam };
      // As JSON: the same route has a CSV file for those who ask for one.
      return dataOf(await api.GET("/v1/calls", { params: { query } })) as Calls;
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.cursor ?? undefined,
    refetchInterval: 10_000,
  });
  const calls = query.data?.pages.flatMap((page) => page.calls) ?? [];
  if (!mayRead) return <EmptyState title={WORDS.noneOfYours} />;
  if (query.isPending) return <LoadingState />;
  if (query.isError && calls.length === 0) {
    return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  }
  if (calls.length === 0) {
    const title = can(me, "auditor") ? WORDS.none : WORDS.noneOfYours;
    return <EmptyState title={title}>{WORDS.noneHint}</EmptyState>;
  }
  return (
    <div className={styles.stack}>
      <Table
        caption={WORDS.caption}
        columns={columns(me, entry)}
        rows={calls}
        rowKey={(call) => `${call.session_id} ${call.call_id ?? call.seq}`}
      />
      {query.hasNextPage && (
        <Button onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
          {WORDS.more}
        </Button>
      )}
    </div>
  );
}

function columns(me: Me, entry: CatalogEntry): Column<Call>[] {
  return [
    { id: "at", label: WORDS.at, cell: (call) => <Time at={call.at} /> },
    { id: "who", label: WORDS.who, cell: (call) => <Who call={call} /> },
    { id: "status", label: WORDS.status, cell: (call) => <Status call={call} /> },
    { id: "decision", label: WORDS.decision, cell: (call) => <Decision call={call} /> },
    { id: "took", label: WORDS.took, align: "end", cell: (call) => <Took call={call} /> },
    {
      id: "cost",
      label: WORDS.cost,
      align: "end",
      cell: (call) => (call.cost == null ? "" : money(call.cost)),
    },
    {
      id: "session",
      label: WORDS.session,
      cell: (call) => <Record call={call} entry={entry} me={me} />,
    },
  ];
}

function Who({ call }: { call: Call }) {
  const isOperator = call.transport === "console" && !call.turn;
  return (
    <span>
      {call.principal == null ? WORDS.directly : <Text text={call.principal} />}{" "}
      {isOperator ? (
        <Badge>{WORDS.operator}</Badge>
      ) : (
        call.transport != null && (
          <span className={styles.soft}>
            {WORDS.over} <Text text={call.transport} />
          </span>
        )
      )}
    </span>
  );
}

function Status({ call }: { call: Call }) {
  return (
    <span>
      <Badge tone={TONES[call.status]}>{WORDS.statuses[call.status]}</Badge>{" "}
      {call.failure != null && <span className={styles.soft}>{call.failure}</span>}
    </span>
  );
}

function Decision({ call }: { call: Call }) {
  if (call.decision == null) return null;
  return (
    <span>
      {call.decision}{" "}
      {call.approver != null && (
        <span className={styles.soft}>
          <Text text={call.approver} />
        </span>
      )}
    </span>
  );
}

function Took({ call }: { call: Call }) {
  const waited = call.waited_seconds ?? 0;
  return (
    <span>
      {call.status === "completed" || call.status === "failed"
        ? duration(call.duration_seconds ?? 0)
        : ""}
      {waited >= 1 && (
        <span className={styles.soft}>
          {" "}
          {WORDS.waited} {duration(waited)}
        </span>
      )}
    </span>
  );
}

/** Where the record of a call is; a call of one's own that waits can be taken up. */
function Record({ call, entry, me }: { call: Call; entry: CatalogEntry; me: Me }) {
  const isOpen = call.status === "waiting" || call.status === "approved";
  const isOwn = call.owner === me.principal && call.principal === me.principal && !call.turn;
  const search = call.last_seq > 0 ? { event: call.last_seq } : {};
  return (
    <span className={styles.links}>
      <Link to="/sessions/$sessionId" params={{ sessionId: call.session_id }} search={search}>
        {WORDS.open}
      </Link>
      {isOpen && isOwn && call.call_id != null && (
        <Link
          to="/tools/$name"
          params={{ name: entry.name }}
          search={{ source: entry.source, session: call.session_id, call: call.call_id }}
        >
          {WORDS.resume}
        </Link>
      )}
    </span>
  );
}
