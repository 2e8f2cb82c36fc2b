import type { Envelope, Facts } from "@/parts/timeline/envelope";

export type CallStatus =
  | "writing"
  | "proposed"
  | "waiting"
  | "approved"
  | "running"
  | "asking"
  | "deferred"
  | "completed"
  | "failed"
  | "denied"
  | "expired"
  | "in_doubt";

/** Statuses of calls that have not ended. */
export const OPEN: ReadonlySet<CallStatus> = new Set([
  "writing",
  "proposed",
  "waiting",
  "approved",
  "running",
  "asking",
  "deferred",
]);

export interface Decision {
  kind: string;
  actor: string | null;
  actorKind: string | null;
  at: number;
  seq: number;
  reason: string | null;
  /** The arguments in place of the proposed ones; undefined when they were not edited. */
  edited: unknown;
}

export interface ApprovalItem {
  approvalId: string;
  seq: number;
  at: number;
  deadline: number | null;
  rule: string | null;
  reason: string | null;
  /** The request as the ledger has it. */
  request: Facts;
  votes: { actor: string | null; at: number; votes: number; needed: number }[];
  decision: Decision | null;
}

export interface QuestionItem {
  questionId: string;
  seq: number;
  at: number;
  text: string;
  deadline: number | null;
  question: Facts;
  /** How it ended; null while it is open. */
  end: { kind: "answered" | "closed"; by: string | null; at: number; words: string } | null;
}

export interface Progress {
  current: number;
  total: number | null;
  message: string | null;
  at: number;
}

/** One call, with everything that its events say so far. */
export interface CallItem {
  callId: string;
  tool: string;
  source: string | null;
  place: string | null;
  status: CallStatus;
  /** The number of its first event, and of its newest. */
  firstSeq: number;
  seq: number;
  at: number;
  startedAt: number | null;
  endedAt: number | null;
  duration: number | null;
  waited: number;
  attempt: number;
  turn: number;
  parentCallId: string | null;
  principal: string | null;
  /** The arguments: as the model wrote them, and those that ran. */
  proposed: unknown;
  params: unknown;
  hasParams: boolean;
  approvals: ApprovalItem[];
  questions: QuestionItem[];
  progress: Progress | null;
  /** The end of what it printed. */
  output: string;
  /** How many characters it printed in all. */
  printed: number;
  emitted: { type: string; at: number; seq: number; data: unknown }[];
  /** The payload of `tool.invoked`. */
  end: Facts | null;
  /** Pictures on their way, of a provider-run call. */
  image: { mediaType: string; base64: string } | null;
  notes: string[];
}

export interface PromptRow {
  kind: "prompt";
  key: string;
  depth: number;
  seq: number;
  at: number;
  turn: number;
  text: string;
  name: string;
  model: string;
  principal: string | null;
  parentCallId: string | null;
  data: Facts;
}

/** What the model said in one step. */
export interface ModelRow {
  kind: "model";
  key: string;
  depth: number;
  /** Of the reply; null while it is being written. */
  seq: number | null;
  at: number;
  turn: number;
  step: number;
  text: string;
  reasoning: string[];
  isLive: boolean;
  /** Whether the beginning of the live text was missed. */
  isPartial: boolean;
  status: string;
  /** What the text cites, when it is the answer of its prompt. */
  sources: Facts[];
  /** The number of `prompt.answered`, when the text is the answer. */
  answerSeq: number | null;
  data: Facts | null;
}

/** Calls of one step, side by side. */
export interface CallsRow {
  kind: "calls";
  key: string;
  depth: number;
  seq: number;
  at: number;
  turn: number;
  calls: CallItem[];
}

/** Any other event. */
export interface NoticeRow {
  kind: "notice";
  key: string;
  depth: number;
  seq: number;
  at: number;
  turn: number;
  /** Whether it is housekeeping that few want to see. */
  isQuiet: boolean;
  event: Envelope;
}

export type Row = PromptRow | ModelRow | CallsRow | NoticeRow;
