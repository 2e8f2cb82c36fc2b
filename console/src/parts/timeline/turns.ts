import { CallBook } from "@/parts/timeline/calls";
import {
  factsIn,
  listIn,
  numberIn,
  textIn,
  asFacts,
  type Envelope,
} from "@/parts/timeline/envelope";
import { readReply } from "@/parts/timeline/reply";
import type { CallsRow, ModelRow, Row } from "@/parts/timeline/rows";

const QUIET = new Set([
  "session.opened",
  "session.settings_saved",
  "turn.started",
  "prompt.resumed",
  "container.used",
  "files.staged",
  "model.queued",
  "grant.changed",
]);
const DROPPED = new Set(["events.gap", "events.ended"]);

interface Turn {
  parentCallId: string | null;
  lastStep: number;
  isOpen: boolean;
}

/**
 * From events to the rows of a transcript, event by event. The same events make the same rows,
 * whatever the pieces are that they come in. A row is a new object when it has changed, and only
 * then, so that a list can tell what to draw again.
 */
export class Turns {
  /** The number of the last recorded event that was taken. */
  lastSeq = 0;
  private readonly book = new CallBook();
  private readonly turns = new Map<number, Turn>();
  private readonly rows = new Map<string, Row>();
  /** The keys of the rows at the top, and of those within each call. */
  private readonly order = new Map<string | null, string[]>([[null, []]]);
  private readonly places = new Map<number, string>();
  private readonly callPlaces = new Map<number, string>();
  /** The steps whose beginning was seen. */
  private readonly asked = new Set<string>();
  private flat: Row[] | null = [];

  /** Take events in order. A recorded event that was taken before is ignored. */
  push(events: readonly Envelope[]): void {
    for (const event of events) {
      if (event.is_kept && event.seq <= this.lastSeq) continue;
      if (event.is_kept) this.lastSeq = event.seq;
      this.take(event);
    }
  }

  /** The rows, in the order of a transcript: what happens within a call follows the call. */
  list(): readonly Row[] {
    this.settle();
    this.flat ??= this.flatten(null, 0);
    return this.flat;
  }

  /** The key of the row that shows a recorded event. */
  rowOf(seq: number): string | null {
    return this.places.get(seq) ?? null;
  }

  /** The call that a recorded event is about. */
  callOf(seq: number): string | null {
    return this.callPlaces.get(seq) ?? null;
  }

  /** Forget what is half written: the connection was lost, and its next piece may be a later one. */
  dropLive(): void {
    this.asked.clear();
    for (const row of this.rows.values()) {
      if (row.kind === "model" && row.isLive && row.seq === null) {
        this.put({ ...row, text: "", reasoning: [], isPartial: true });
      }
    }
  }

  private take(event: Envelope): void {
    if (DROPPED.has(event.kind)) return;
    const callId = textIn(event.data, "call_id");
    switch (event.kind) {
      case "turn.started":
        this.startTurn(event);
        return this.notice(event);
      case "prompt.started":
        return this.startPrompt(event);
      case "prompt.answered":
        return this.answer(event);
      case "model.asked":
        this.asked.add(
          modelKey(numberIn(event.data, "turn") ?? 0, numberIn(event.data, "step") ?? 0),
        );
        return;
      case "model.text_delta":
      case "model.reasoning_delta":
        return this.delta(event);
      case "model.partial_reply":
        return this.partial(event);
      case "model.responded":
        return this.respond(event);
      case "turn.ended":
        return this.endTurn(event);
      case "prompt.stopped":
        this.turn(numberIn(event.data, "turn") ?? 0).isOpen = false;
        return this.notice(event);
      default:
        if (callId !== null && this.book.takes(event.kind)) return this.call(event, callId);
        if (event.is_kept || event.kind === "call.unrecorded") this.notice(event);
    }
  }

  private turn(number: number): Turn {
    let turn = this.turns.get(number);
    if (turn === undefined) {
      turn = { parentCallId: null, lastStep: 0, isOpen: true };
      this.turns.set(number, turn);
    }
    return turn;
  }

  private startTurn(event: Envelope): void {
    const turn = this.turn(numberIn(event.data, "turn") ?? 0);
    turn.parentCallId = textIn(event.data, "parent_call_id");
    turn.isOpen = true;
  }

  private startPrompt(event: Envelope): void {
    this.startTurn(event);
    const number = numberIn(event.data, "turn") ?? 0;
    this.add(this.turn(number).parentCallId, {
      kind: "prompt",
      key: `prompt:${event.seq}`,
      depth: 0,
      seq: event.seq,
      at: event.at,
      turn: number,
      text: textIn(event.data, "text") ?? "",
      name: textIn(event.data, "prompt_name") ?? "",
      model: textIn(event.data, "model") ?? "",
      principal: textIn(event.data, "principal"),
      parentCallId: this.turn(number).parentCallId,
      data: event.data,
    });
  }

  /** The answer repeats the text of the last step, which then has its sources. */
  private answer(event: Envelope): void {
    const number = numberIn(event.data, "turn") ?? 0;
    const turn = this.turn(number);
    turn.isOpen = false;
    const sources = listIn(event.data, "sources").map(asFacts);
    const text = textIn(event.data, "text") ?? "";
    const last = this.rows.get(modelKey(number, turn.lastStep));
    if (last?.kind === "model" && last.text.trim() === text.trim()) {
      this.places.set(event.seq, last.key);
      this.put({ ...last, sources, answerSeq: event.seq, isLive: false });
    } else if (text !== "") {
      const row = newModelRow(`answer:${event.seq}`, event, number, turn.lastStep);
      this.add(turn.parentCallId, { ...row, text, sources, answerSeq: event.seq });
    }
  }

  private delta(event: Envelope): void {
    const number = numberIn(event.data, "turn") ?? 0;
    const step = numberIn(event.data, "step") ?? 0;
    const isPartial = !this.asked.has(modelKey(number, step));
    const row = { ...this.modelRow(event, number, step), isPartial };
    if (row.seq !== null) return;
    const text = textIn(event.data, "text") ?? "";
    const isRestart = event.data["is_restart"] === true;
    if (event.kind === "model.text_delta") {
      this.put({ ...row, text: isRestart ? text : row.text + text, isLive: true });
      return;
    }
    const index = numberIn(event.data, "index") ?? 0;
    const reasoning = [...row.reasoning];
    while (reasoning.length < index) reasoning.push("");
    reasoning[index] = isRestart ? text : (reasoning[index] ?? "") + text;
    this.put({ ...row, reasoning, isLive: true });
  }

  /** What was written of a reply before the session was followed; its next pieces come after it. */
  private partial(event: Envelope): void {
    const number = numberIn(event.data, "turn") ?? 0;
    const step = numberIn(event.data, "step") ?? 0;
    const row = this.modelRow(event, number, step);
    if (row.seq !== null) return;
    const reasoning = listIn(event.data, "reasoning").filter((each) => typeof each === "string");
    const text = textIn(event.data, "text") ?? "";
    this.put({ ...row, text, reasoning, isLive: true, isPartial: false });
    for (const call of listIn(event.data, "calls").map(asFacts)) {
      const callId = textIn(call, "call_id");
      const data = { ...call, turn: number, step, is_restart: true };
      if (callId !== null) this.call({ ...event, kind: "model.arguments_delta", data }, callId);
    }
  }

  private respond(event: Envelope): void {
    const number = numberIn(event.data, "turn") ?? 0;
    const step = numberIn(event.data, "step") ?? 0;
    const status = textIn(event.data, "status") ?? "completed";
    const reply = readReply(event.data);
    const key = modelKey(number, step);
    const isShown = reply.text !== "" || reply.reasoning.length > 0 || status !== "completed";
    if (isShown || this.rows.has(key)) {
      const row = this.modelRow(event, number, step);
      const { text, reasoning } = reply;
      const done = { seq: event.seq, isLive: false, isPartial: false, data: event.data };
      this.put({ ...row, ...done, text, reasoning, status });
      this.places.set(event.seq, key);
    }
    this.turn(number).lastStep = step;
    for (const proposed of reply.calls) {
      this.book.propose(proposed, event, number);
      this.group(proposed.callId, callsKey(number, step), number, event);
      if (!isShown) this.places.set(event.seq, callsKey(number, step));
    }
    if (!this.places.has(event.seq)) this.places.set(event.seq, key);
  }

  private endTurn(event: Envelope): void {
    const outcome = textIn(event.data, "outcome");
    const number = numberIn(event.data, "turn") ?? 0;
    // How it ended is recorded: `prompt.answered`, or `prompt.stopped` with the reason.
    if (outcome !== "waiting") this.turn(number).isOpen = false;
  }

  private call(event: Envelope, callId: string): void {
    this.book.take(event, callId);
    const call = this.book.get(callId);
    if (call === undefined) return;
    const number = call.turn;
    const step = numberIn(event.data, "step");
    if (call.parentCallId !== null) {
      this.group(callId, `within:${call.parentCallId}`, number, event, call.parentCallId);
    } else if (step !== null) {
      this.group(callId, callsKey(number, step), number, event);
    } else if (!this.book.isPlaced(callId)) {
      const turn = this.turns.get(number);
      const isOfTurn = turn !== undefined && turn.isOpen && turn.lastStep > 0;
      const key = isOfTurn ? callsKey(number, turn.lastStep) : `call:${callId}`;
      this.group(callId, key, number, event);
    }
    const key = this.book.placeOf(callId);
    if (key !== null && event.is_kept) {
      this.places.set(event.seq, key);
      this.callPlaces.set(event.seq, callId);
    }
    if (key !== null) this.flat = null;
  }

  /** Put a call into a row; a call that turns out to be part of another moves there. */
  private group(
    callId: string,
    key: string,
    turn: number,
    event: Envelope,
    parent: string | null = this.turns.get(turn)?.parentCallId ?? null,
  ): void {
    const before = this.book.placeOf(callId);
    if (before === key) return;
    if (before !== null && !key.startsWith("within:")) return;
    this.book.place(callId, key);
    this.flat = null;
    if (before !== null && this.book.members(before).length === 0) this.remove(before);
    if (!this.rows.has(key)) {
      const { seq, at } = event;
      this.add(parent, { kind: "calls", key, depth: 0, seq, at, turn, calls: [] });
    }
  }

  private notice(event: Envelope): void {
    const number = numberIn(event.data, "turn") ?? 0;
    const actor = textIn(factsIn(event.data, "actor"), "kind");
    // Passing events share the number of a recorded one.
    const key = event.is_kept
      ? `event:${event.seq}`
      : `passing:${event.kind}:${number}:${event.at}`;
    const isQuiet =
      QUIET.has(event.kind) && !(event.kind === "grant.changed" && actor === "person");
    const parent = this.turns.get(number)?.parentCallId ?? null;
    const about = { depth: 0, seq: event.seq, at: event.at, turn: number };
    this.add(parent, { kind: "notice", key, ...about, isQuiet, event });
  }

  private modelRow(event: Envelope, turn: number, step: number): ModelRow {
    const key = modelKey(turn, step);
    const row = this.rows.get(key);
    if (row?.kind === "model") return row;
    this.add(this.turn(turn).parentCallId, newModelRow(key, event, turn, step));
    return this.modelRow(event, turn, step);
  }

  private add(parent: string | null, row: Row): void {
    this.rows.set(row.key, row);
    const keys = this.order.get(parent) ?? [];
    if (keys.length === 0) this.order.set(parent, keys);
    keys.push(row.key);
    if (row.seq !== null && !this.places.has(row.seq)) this.places.set(row.seq, row.key);
    this.flat = null;
  }

  private put(row: Row): void {
    this.rows.set(row.key, row);
    this.flat = null;
  }

  private remove(key: string): void {
    this.rows.delete(key);
    for (const keys of this.order.values()) {
      const index = keys.indexOf(key);
      if (index >= 0) keys.splice(index, 1);
    }
  }

  /** Give rows of calls the calls as they are now. */
  settle(): void {
    for (const key of this.book.changedPlaces()) {
      const row = this.rows.get(key);
      if (row?.kind === "calls")
        this.put({ ...row, calls: this.book.shown(key) } satisfies CallsRow);
    }
  }

  private flatten(parent: string | null, depth: number): Row[] {
    const flat: Row[] = [];
    for (const key of this.order.get(parent) ?? []) {
      const row = this.rows.get(key);
      if (row === undefined || isEmpty(row)) continue;
      const placed = row.depth === depth ? row : { ...row, depth };
      if (placed !== row) this.rows.set(key, placed);
      flat.push(placed);
      if (row.kind !== "calls") continue;
      for (const call of row.calls) {
        if (this.order.has(call.callId)) flat.push(...this.flatten(call.callId, depth + 1));
      }
    }
    return flat;
  }
}

function isEmpty(row: Row): boolean {
  if (row.kind === "calls") return row.calls.length === 0;
  if (row.kind !== "model") return false;
  const isSilent = row.text === "" && row.reasoning.length === 0;
  return isSilent && !row.isLive && row.status === "completed";
}

function newModelRow(key: string, event: Envelope, turn: number, step: number): ModelRow {
  return {
    kind: "model",
    key,
    depth: 0,
    seq: null,
    at: event.at,
    turn,
    step,
    text: "",
    reasoning: [],
    isLive: false,
    isPartial: false,
    status: "completed",
    sources: [],
    answerSeq: null,
    data: null,
  };
}

function modelKey(turn: number, step: number): string {
  return `model:${turn}:${step}`;
}

function callsKey(turn: number, step: number): string {
  return `calls:${turn}:${step}`;
}
