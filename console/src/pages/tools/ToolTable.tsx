import { Link } from "@tanstack/react-router";
import { ArrowDown, ArrowUp } from "lucide-react";
import type { ReactNode } from "react";

import { messages } from "@/messages";
import { duration, money } from "@/parts/format";
import { Table, type Column } from "@/parts/Table";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

import { sortedBy, type Order, type ToolsSearch } from "./addresses";
import { shortDigest, toolSource, type CatalogEntry } from "./catalog";
import { RuleSummary, ToolBadges } from "./ToolBadges";
import styles from "./tools.module.css";

const WORDS = messages.tools;

/** The tools of the runtime, a row each. */
export function ToolTable({ entries, search }: { entries: CatalogEntry[]; search: ToolsSearch }) {
  const columns: Column<CatalogEntry>[] = [
    { id: "name", label: WORDS.name, cell: (entry) => <Name entry={entry} all={entries} /> },
    { id: "source", label: WORDS.source, cell: (entry) => <Source entry={entry} /> },
    { id: "version", label: WORDS.version, cell: (entry) => <Version entry={entry} /> },
    {
      id: "rule",
      label: WORDS.rule,
      cell: (entry) => <RuleSummary rule={entry.rule} entry={entry} />,
    },
    number("calls", WORDS.calls, (entry) => entry.statistics.calls),
    number("failures", WORDS.failures, (entry) => {
      const failures = entry.statistics.failures;
      return failures ? <span className={styles.bad}>{failures}</span> : 0;
    }),
    number("p50", WORDS.p50, (entry) => seconds(entry.statistics.p50_seconds)),
    number("p95", WORDS.p95, (entry) => seconds(entry.statistics.p95_seconds)),
    number("last_used", WORDS.lastUsed, (entry) => <LastUsed entry={entry} />),
    number("cost", WORDS.cost, (entry) => <Cost entry={entry} />),
  ];
  const sortable = columns.map((column) => withHead(column, search));
  return (
    <Table caption={WORDS.caption} columns={sortable} rows={entries} rowKey={(entry) => entry.id} />
  );
}

function number(
  id: string,
  label: string,
  cell: (entry: CatalogEntry) => ReactNode,
): Column<CatalogEntry> {
  return { id, label, cell, align: "end" };
}

/** A column whose head is a link that orders by it. */
function withHead(column: Column<CatalogEntry>, search: ToolsSearch): Column<CatalogEntry> {
  if (!(column.id in WORDS.orders)) return column;
  const isSorted = (search.order ?? "name") === column.id;
  const Arrow = search.descending ? ArrowDown : ArrowUp;
  return {
    ...column,
    sorted: isSorted ? (search.descending ? "descending" : "ascending") : undefined,
    head: (
      <Link
        to="/tools"
        search={sortedBy(search, column.id as Order)}
        replace
        className={styles.head}
        title={WORDS.orderBy(column.label)}
      >
        {column.label}
        {isSorted && <Arrow aria-hidden size={13} />}
      </Link>
    ),
  };
}

function seconds(value: number | null | undefined): ReactNode {
  return value == null ? <None /> : duration(value);
}

function None() {
  return (
    <>
      <span aria-hidden>–</span>
      <span className="sr-only">{WORDS.none}</span>
    </>
  );
}

function Name({ entry, all }: { entry: CatalogEntry; all: CatalogEntry[] }) {
  return (
    <span className={styles.name}>
      <Link
        to="/tools/$name"
        params={{ name: entry.name }}
        search={{ source: toolSource(entry, all) }}
      >
        <Text text={entry.name} />
      </Link>
      <ToolBadges entry={entry} />
      <span className={styles.soft}>
        <Text text={entry.withheld ?? entry.summary} most={140} />
      </span>
    </span>
  );
}

function Source({ entry }: { entry: CatalogEntry }) {
  return (
    <span className={styles.stack}>
      <Text text={entry.source} />
      <span className={styles.soft}>{WORDS.places[entry.place]}</span>
    </span>
  );
}

function Version({ entry }: { entry: CatalogEntry }) {
  return (
    <span className={styles.stack}>
      <Text text={entry.version} />
      {entry.digest !== "" && <code title={entry.digest}>{shortDigest(entry.digest)}</code>}
    </span>
  );
}

function LastUsed({ entry }: { entry: CatalogEntry }) {
  const at = entry.statistics.last_used_at;
  return at == null ? (
    <span className={styles.soft}>{messages.parts.never}</span>
  ) : (
    <Time at={at} />
  );
}

/** What calls cost; tools that ask no model cost nothing that could be counted. */
function Cost({ entry }: { entry: CatalogEntry }) {
  const { cost, unpriced } = entry.statistics;
  if (cost == null && !unpriced) return <None />;
  return (
    <span title={unpriced ? WORDS.unpriced(unpriced) : undefined}>
      {money(cost)}
      {unpriced ? "+" : ""}
    </span>
  );
}
