import { OPEN, type CallItem, type CallStatus, type Row } from "@/parts/timeline/rows";

/** What of a transcript is shown. Nothing chosen shows all but housekeeping. */
export interface RowFilter {
  tool?: string | undefined;
  status?: StatusFilter | undefined;
  place?: string | undefined;
  /** Whether housekeeping is shown too. */
  all?: boolean | undefined;
  /** The key of a row that is shown whatever the filter says. */
  chosen?: string | null | undefined;
}

export type StatusFilter = "waiting" | "running" | "completed" | "failed" | "denied";
export const STATUS_FILTERS: readonly StatusFilter[] = [
  "waiting",
  "running",
  "completed",
  "failed",
  "denied",
];

const WAITING: ReadonlySet<CallStatus> = new Set(["waiting", "asking", "deferred"]);
const DENIED: ReadonlySet<CallStatus> = new Set(["denied", "expired"]);

/** The rows that a filter lets pass: calls that match, and the prompts that they are part of. */
export function filterRows(rows: readonly Row[], filter: RowFilter): readonly Row[] {
  const isChosen = (row: Row) => row.key === filter.chosen;
  const loud = rows.filter(
    (row) => row.kind !== "notice" || filter.all === true || !row.isQuiet || isChosen(row),
  );
  if (!filter.tool && !filter.status && !filter.place) return loud;
  const matching = loud.flatMap((row): Row[] => {
    if (isChosen(row)) return [row];
    if (row.kind !== "calls") return row.kind === "prompt" ? [row] : [];
    const calls = row.calls.filter((call) => isMatch(call, filter));
    if (calls.length === 0) return [];
    return [calls.length === row.calls.length ? row : { ...row, calls }];
  });
  const turns = new Set(matching.flatMap((row) => (row.kind === "calls" ? [row.turn] : [])));
  return matching.filter((row) => row.kind !== "prompt" || turns.has(row.turn) || isChosen(row));
}

function isMatch(call: CallItem, filter: RowFilter): boolean {
  return (
    (!filter.tool || call.tool === filter.tool) &&
    (!filter.place || call.place === filter.place) &&
    (!filter.status || statusOf(call.status) === filter.status)
  );
}

/** The status of a call in the words of the filter. */
export function statusOf(status: CallStatus): StatusFilter {
  if (WAITING.has(status)) return "waiting";
  if (OPEN.has(status)) return "running";
  if (DENIED.has(status)) return "denied";
  return status === "completed" ? "completed" : "failed";
}

/** The tools and places of a transcript, in order. */
export function choicesOf(rows: readonly Row[]): { tools: string[]; places: string[] } {
  const calls = rows.flatMap((row) => (row.kind === "calls" ? row.calls : []));
  const places = calls.flatMap((call) => (call.place === null ? [] : [call.place]));
  return {
    tools: [...new Set(calls.map((call) => call.tool))].sort(),
    places: [...new Set(places)].sort(),
  };
}

const texts = new WeakMap<Row, string>();
const MOST = 20_000;

/** The keys of the rows with a text, whatever the case of its letters. */
export function findRows(rows: readonly Row[], text: string): string[] {
  const words = text.trim().toLowerCase();
  if (words === "") return [];
  return rows.filter((row) => textOf(row).includes(words)).map((row) => row.key);
}

function textOf(row: Row): string {
  let text = texts.get(row);
  if (text === undefined) {
    text = written(row).slice(0, MOST).toLowerCase();
    texts.set(row, text);
  }
  return text;
}

function written(row: Row): string {
  switch (row.kind) {
    case "prompt":
      return `${row.text}\n${row.principal ?? ""}`;
    case "model":
      return [row.text, ...row.reasoning].join("\n");
    case "calls":
      return row.calls.map(callText).join("\n");
    case "notice":
      return `${row.event.kind}\n${JSON.stringify(row.event.data)}`;
  }
}

function callText(call: CallItem): string {
  const parts = [
    call.tool,
    call.callId,
    JSON.stringify(call.hasParams ? call.params : call.proposed) ?? "",
    call.output,
    String(call.end?.["message"] ?? ""),
    ...call.questions.map((question) => question.text),
    ...call.approvals.map((approval) => approval.decision?.actor ?? ""),
  ];
  return parts.join("\n").slice(0, MOST);
}

/** An event that can be chosen: a row, or one call of a row. */
export interface Stop {
  rowKey: string;
  callId: string | null;
  seq: number;
}

/** Where the arrow keys stop, in order. */
export function stopsOf(rows: readonly Row[]): Stop[] {
  return rows.flatMap((row): Stop[] => {
    if (row.kind === "calls") {
      return row.calls.map(({ callId, seq }) => ({ rowKey: row.key, callId, seq }));
    }
    const seq = row.kind === "model" ? (row.seq ?? row.answerSeq) : row.seq;
    return seq === null ? [] : [{ rowKey: row.key, callId: null, seq }];
  });
}
