import { Link } from "@tanstack/react-router";

import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { money } from "@/parts/format";
import { Table, type Column } from "@/parts/Table";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";
import type { SessionFacts } from "@/pages/sessions/SessionsPage";
import styles from "@/pages/sessions/SessionsPage.module.css";

/** The sessions of a list: what each is about, how it stands, and what happened in it. */
export function SessionTable({ sessions }: { sessions: SessionFacts[] }) {
  return (
    <Table
      caption={messages.sessions.caption}
      columns={COLUMNS}
      rows={sessions}
      rowKey={(session) => session.session_id}
    />
  );
}

const COLUMNS: Column<SessionFacts>[] = [
  { id: "title", label: messages.sessions.titleColumn, cell: (row) => <Title session={row} /> },
  { id: "state", label: messages.sessions.state, cell: (row) => <State session={row} /> },
  { id: "counts", label: messages.sessions.counts, cell: (row) => <Counts session={row} /> },
  {
    id: "owner",
    label: messages.sessions.owner,
    cell: ({ owner }) => (owner ? <Text text={owner} /> : "–"),
  },
  {
    id: "activity",
    label: messages.sessions.activity,
    align: "end",
    cell: ({ last_event_at: at }) => (at ? <Time at={at} /> : "–"),
  },
  {
    id: "cost",
    label: messages.sessions.cost,
    align: "end",
    cell: ({ cost }) => (cost === null || cost === undefined ? "–" : money(cost)),
  },
];

function Title({ session }: { session: SessionFacts }) {
  const { title, session_id: id } = session;
  return (
    <div className={styles.title}>
      <Link to="/sessions/$sessionId" params={{ sessionId: id }}>
        {title ? <Text text={title} most={120} /> : messages.sessions.untitled}
      </Link>
      <span className={styles.id}>
        <Text text={id} most={80} />
      </span>
    </div>
  );
}

function State({ session }: { session: SessionFacts }) {
  const waiting = session.pending_approvals ?? 0;
  return (
    <div className={styles.badges}>
      {waiting > 0 && <Badge tone="waiting">{messages.sessions.waits(waiting)}</Badge>}
      {session.is_busy === true && <Badge tone="accent">{messages.sessions.busy}</Badge>}
      <Badge>{session.state === "open" ? messages.sessions.open : messages.sessions.closed}</Badge>
    </div>
  );
}

function Counts({ session }: { session: SessionFacts }) {
  const { prompts = 0, calls = 0, failures = 0 } = session;
  const parts = [
    prompts > 0 ? messages.sessions.prompts(prompts) : "",
    calls > 0 ? messages.sessions.calls(calls) : "",
  ];
  return (
    <div className={styles.badges}>
      <span>{parts.filter((part) => part !== "").join(", ") || "–"}</span>
      {failures > 0 && <Badge tone="bad">{messages.sessions.failures(failures)}</Badge>}
    </div>
  );
}
