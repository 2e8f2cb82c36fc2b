import {
  asFacts,
  factsIn,
  jsonIn,
  numberIn,
  textIn,
  type Envelope,
  type Facts,
} from "@/parts/timeline/envelope";
import type { ProposedCall } from "@/parts/timeline/reply";
import type { ApprovalItem, CallItem, CallStatus, Decision } from "@/parts/timeline/rows";

/** How much of what a call prints is shown; the ledger has it all. */
export const SHOWN_OUTPUT = 20_000;

const DENIALS = new Set(["denied", "not_permitted"]);

type Step = (call: CallItem, event: Envelope) => void;

/** The calls of a session, and the row that each is shown in. */
export class CallBook {
  private readonly calls = new Map<string, CallItem>();
  private readonly places = new Map<string, string>();
  private readonly rows = new Map<string, string[]>();
  private readonly changed = new Set<string>();
  private readonly fresh = new Set<string>();
  private readonly copies = new Map<string, CallItem>();

  get(callId: string): CallItem | undefined {
    return this.calls.get(callId);
  }

  /** Whether events of a kind are about one call. */
  takes(kind: string): boolean {
    return kind in STEPS;
  }

  take(event: Envelope, callId: string): void {
    const call = this.calls.get(callId) ?? this.open(callId, event);
    if (event.is_kept) call.seq = event.seq;
    STEPS[event.kind]?.(call, event);
    this.touch(callId);
  }

  propose(proposed: ProposedCall, event: Envelope, turn: number): void {
    const call = this.calls.get(proposed.callId) ?? this.open(proposed.callId, event);
    call.tool = call.tool || proposed.tool;
    call.proposed = proposed.arguments;
    call.turn = turn;
    if (call.status === "writing") call.status = "proposed";
    this.touch(proposed.callId);
  }

  isPlaced(callId: string): boolean {
    return this.places.has(callId);
  }

  placeOf(callId: string): string | null {
    return this.places.get(callId) ?? null;
  }

  place(callId: string, key: string): void {
    const before = this.places.get(callId);
    if (before !== undefined) {
      this.rows.set(
        before,
        this.members(before).filter((id) => id !== callId),
      );
      this.changed.add(before);
    }
    this.places.set(callId, key);
    this.rows.set(key, [...this.members(key), callId]);
    this.changed.add(key);
  }

  members(key: string): string[] {
    return this.rows.get(key) ?? [];
  }

  /** The rows whose calls have changed since the last time. */
  changedPlaces(): string[] {
    const keys = [...this.changed];
    this.changed.clear();
    return keys;
  }

  /** The calls of a row. A call that has not changed is the same object as before. */
  shown(key: string): CallItem[] {
    return this.members(key).flatMap((callId) => {
      const call = this.calls.get(callId);
      if (call === undefined) return [];
      const copy = this.copies.get(callId);
      if (copy !== undefined && !this.fresh.has(callId)) return [copy];
      const made = { ...call };
      this.copies.set(callId, made);
      this.fresh.delete(callId);
      return [made];
    });
  }

  private touch(callId: string): void {
    this.fresh.add(callId);
    const key = this.places.get(callId);
    if (key !== undefined) this.changed.add(key);
  }

  private open(callId: string, event: Envelope): CallItem {
    const call: CallItem = {
      callId,
      tool: textIn(event.data, "tool") ?? "",
      source: null,
      place: null,
      status: "writing",
      firstSeq: event.seq,
      seq: event.seq,
      at: event.at,
      startedAt: null,
      endedAt: null,
      duration: null,
      waited: 0,
      attempt: 1,
      turn: numberIn(event.data, "turn") ?? 0,
      parentCallId: null,
      principal: null,
      proposed: undefined,
      params: undefined,
      hasParams: false,
      approvals: [],
      questions: [],
      progress: null,
      output: "",
      printed: 0,
      emitted: [],
      end: null,
      image: null,
      notes: [],
    };
    this.calls.set(callId, call);
    return call;
  }
}

const STEPS: Record<string, Step> = {
  "model.arguments_delta": writeArguments,
  "model.hosted_progress": followHosted,
  "approval.requested": request,
  "approval.voted": vote,
  "approval.decided": decide,
  "approval.superseded": supersede,
  "call.started": start,
  "call.deferred": (call, event) => {
    readTool(call, event.data);
    setParams(call, event.data["params"]);
    call.turn = numberIn(event.data, "turn") ?? call.turn;
    call.status = "deferred";
  },
  "call.in_doubt": (call, event) => {
    readTool(call, event.data);
    call.status = "in_doubt";
  },
  "tool.unavailable": (call, event) => {
    readTool(call, event.data);
    call.notes = [...call.notes, textIn(event.data, "reason") ?? ""];
  },
  "question.asked": ask,
  "question.answered": closeQuestion,
  "question.closed": closeQuestion,
  "tool.progress": (call, event) => {
    call.progress = {
      current: numberIn(event.data, "current") ?? 0,
      total: numberIn(event.data, "total"),
      message: textIn(event.data, "message"),
      at: event.at,
    };
  },
  "tool.output": (call, event) => print(call, textIn(event.data, "chunk") ?? ""),
  "tool.emitted": (call, event) => {
    const type = textIn(event.data, "type") ?? "";
    const emitted = { type, at: event.at, seq: event.seq, data: event.data["data"] };
    call.emitted = [...call.emitted, emitted];
  },
  "files.cited": (call, event) => {
    call.end = { ...call.end, cited_files: event.data["files"] };
  },
  "tool.invoked": invoke,
};

function readTool(call: CallItem, data: Facts): void {
  const tool = factsIn(data, "tool");
  call.tool = textIn(tool, "name") ?? textIn(data, "name") ?? call.tool;
  call.source = textIn(tool, "source") ?? call.source;
  call.place = textIn(tool, "place") ?? call.place;
  call.principal = textIn(data, "principal") ?? call.principal;
}

function setParams(call: CallItem, params: unknown): void {
  call.params = params;
  call.hasParams = true;
}

function writeArguments(call: CallItem, event: Envelope): void {
  if (call.status !== "writing") return;
  const isRestart = event.data["is_restart"] === true;
  const written = typeof call.proposed === "string" && !isRestart ? call.proposed : "";
  call.tool = textIn(event.data, "tool") ?? call.tool;
  call.proposed = written + (textIn(event.data, "text") ?? "");
}

function followHosted(call: CallItem, event: Envelope): void {
  if (call.end !== null) return;
  call.tool = textIn(event.data, "tool") ?? call.tool;
  call.place = "provider";
  call.status = "running";
  call.startedAt ??= event.at;
  const message = textIn(event.data, "status");
  call.progress = { current: 0, total: null, message, at: event.at };
  const code = textIn(event.data, "code");
  const written = textIn(event.data, "arguments") ?? code;
  if (written !== null) {
    call.proposed = (typeof call.proposed === "string" ? call.proposed : "") + written;
  }
  const output = textIn(event.data, "output");
  if (output !== null) print(call, output);
  const image = factsIn(event.data, "image");
  const base64 = textIn(image, "base64");
  if (base64 !== null) {
    call.image = { mediaType: textIn(image, "media_type") ?? "image/png", base64 };
  }
}

function request(call: CallItem, event: Envelope): void {
  const facts = factsIn(event.data, "request");
  readTool(call, facts);
  const caller = factsIn(facts, "caller");
  call.principal = textIn(caller, "principal") ?? call.principal;
  call.turn = numberIn(facts, "turn") ?? call.turn;
  call.parentCallId = textIn(facts, "parent_call_id");
  setParams(call, facts["arguments"]);
  call.status = "waiting";
  const approval: ApprovalItem = {
    approvalId: textIn(facts, "approval_id") ?? "",
    seq: event.seq,
    at: event.at,
    deadline: numberIn(facts, "deadline"),
    rule: textIn(facts, "rule"),
    reason: textIn(facts, "reason"),
    request: facts,
    votes: [],
    decision: null,
  };
  call.approvals = [...call.approvals, approval];
}

function withApproval(
  call: CallItem,
  approvalId: string | null,
  change: (approval: ApprovalItem) => ApprovalItem,
): void {
  call.approvals = call.approvals.map((each) =>
    each.approvalId === approvalId ? change(each) : each,
  );
}

function vote(call: CallItem, event: Envelope): void {
  const cast = factsIn(event.data, "vote");
  const votes = numberIn(event.data, "votes") ?? 0;
  const needed = numberIn(event.data, "needed") ?? 0;
  const actor = textIn(factsIn(cast, "actor"), "name");
  withApproval(call, textIn(event.data, "approval_id"), (approval) => ({
    ...approval,
    votes: [...approval.votes, { actor, at: numberIn(cast, "at") ?? event.at, votes, needed }],
  }));
}

const DECIDED: Record<string, CallStatus> = {
  approve: "approved",
  answer: "approved",
  deny: "denied",
  expire: "expired",
};

function decide(call: CallItem, event: Envelope): void {
  const decided = factsIn(event.data, "decided");
  const decision = factsIn(decided, "decision");
  const kind = textIn(decision, "kind") ?? "";
  const actor = factsIn(decided, "actor");
  const made: Decision = {
    kind,
    actor: textIn(actor, "name"),
    actorKind: textIn(actor, "kind"),
    at: numberIn(decided, "at") ?? event.at,
    seq: event.seq,
    reason: textIn(decision, "reason") ?? textIn(decision, "text"),
    edited: decision["arguments"] ?? undefined,
  };
  const approvalId = textIn(decided, "approval_id");
  if (!call.approvals.some((each) => each.approvalId === approvalId)) {
    // The request is on an older page.
    const at = made.at;
    const before = { approvalId: approvalId ?? "", seq: event.seq, at, deadline: null, rule: null };
    call.approvals = [
      ...call.approvals,
      { ...before, reason: null, request: {}, votes: [], decision: made },
    ];
  }
  withApproval(call, approvalId, (approval) => ({ ...approval, decision: made }));
  call.status = DECIDED[kind] ?? "approved";
}

function supersede(call: CallItem, event: Envelope): void {
  const changes = event.data["changes"];
  const words = Array.isArray(changes) ? changes.map(String) : [];
  call.notes = [...call.notes, ...words];
  const replaced = textIn(event.data, "approval_id");
  call.approvals = call.approvals.filter((each) => each.approvalId !== replaced);
}

function start(call: CallItem, event: Envelope): void {
  readTool(call, event.data);
  call.status = "running";
  call.startedAt = event.at;
  call.attempt = numberIn(event.data, "attempt") ?? 1;
}

function ask(call: CallItem, event: Envelope): void {
  const question = factsIn(event.data, "question");
  readTool(call, question);
  call.turn = numberIn(question, "turn") ?? call.turn;
  call.parentCallId = textIn(question, "parent_call_id") ?? call.parentCallId;
  call.status = "asking";
  call.questions = [
    ...call.questions,
    {
      questionId: textIn(question, "question_id") ?? "",
      seq: event.seq,
      at: event.at,
      text: textIn(question, "text") ?? "",
      deadline: numberIn(question, "deadline"),
      question,
      end: null,
    },
  ];
}

function closeQuestion(call: CallItem, event: Envelope): void {
  const questionId = textIn(event.data, "question_id");
  const by = textIn(factsIn(event.data, "actor"), "name");
  const isAnswer = event.kind === "question.answered";
  const value = event.data["value"];
  const answer = typeof value === "string" ? value : JSON.stringify(value ?? null);
  const why = [textIn(event.data, "why"), textIn(event.data, "reason")].filter(Boolean).join(": ");
  const isSecret = event.data["is_secret"] === true;
  const words = isAnswer ? (isSecret ? "•••" : answer) : why;
  const end = { kind: isAnswer ? "answered" : "closed", by, at: event.at, words } as const;
  call.questions = call.questions.map((each) =>
    each.questionId === questionId ? { ...each, end } : each,
  );
  if (call.status === "asking") call.status = "running";
}

function print(call: CallItem, chunk: string): void {
  call.printed += chunk.length;
  call.output += chunk;
  // Not at every piece: a cut copies all of it.
  if (call.output.length > 2 * SHOWN_OUTPUT) call.output = call.output.slice(-SHOWN_OUTPUT);
}

function invoke(call: CallItem, event: Envelope): void {
  const data = event.data;
  readTool(call, data);
  if (data["origin"] === "provider") call.place = "provider";
  call.end = { ...call.end, ...data };
  call.endedAt = event.at;
  call.duration = numberIn(data, "duration_seconds") ?? 0;
  call.waited = numberIn(data, "waited_seconds") ?? 0;
  call.turn = numberIn(data, "turn") ?? call.turn;
  call.parentCallId = textIn(data, "parent_call_id") ?? call.parentCallId;
  call.image = null;
  if (data["is_deleted"] !== true) setParams(call, data["params"]);
  call.status = endStatus(data);
}

function endStatus(data: Facts): CallStatus {
  const kind = textIn(asFacts(data["failure"]), "kind");
  if (kind !== null && DENIALS.has(kind)) return "denied";
  if (kind === "expired") return "expired";
  return data["success"] === true || data["is_deleted"] === true ? "completed" : "failed";
}

/** The arguments of a call as they are known: those that ran, else those that were written. */
export function argumentsOf(call: CallItem): unknown {
  if (call.hasParams) return call.params;
  return typeof call.proposed === "string" ? jsonIn(call.proposed) : call.proposed;
}
