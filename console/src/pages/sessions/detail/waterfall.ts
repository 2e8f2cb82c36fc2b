/** When things of a session waited and ran, as bars beside each other. */

import { callIdOf, factsIn, numberIn, textIn, type SessionEvent } from "./call";

export type SpanKind = "waiting" | "running";

export interface Span {
  readonly kind: SpanKind;
  readonly from: number;
  readonly to: number;
}

export interface Bar {
  readonly key: string;
  readonly kind: "call" | "model";
  /** The tool or the model. */
  readonly name: string;
  /** The event to select: the last one that speaks of it. */
  readonly seq: number;
  readonly spans: readonly Span[];
  readonly state: "open" | "ok" | "failed";
}

/** A bar whose spans have places between 0 and 1. */
export interface PlacedBar extends Bar {
  readonly places: readonly {
    readonly kind: SpanKind;
    readonly start: number;
    readonly width: number;
  }[];
  readonly waited: number;
  readonly ran: number;
}

export interface Waterfall {
  readonly bars: readonly PlacedBar[];
  /** How many bars there are in all. */
  readonly total: number;
  /** From the first beginning to the last end, without the time in which nothing happened. */
  readonly seconds: number;
  /** Where time in which nothing happened was left out, between 0 and 1. */
  readonly cuts: readonly number[];
}

interface OpenBar {
  key: string;
  kind: "call" | "model";
  name: string;
  seq: number;
  spans: Span[];
  state: "open" | "ok" | "failed";
  waitsSince: number | null;
  runsSince: number | null;
}

const MODEL_STARTS = new Set([
  "prompt.started",
  "prompt.resumed",
  "tool.invoked",
  "model.asked",
  "model.retried",
  "model.responded",
  "prompt.answer_rejected",
]);
/** A pause of more than this part of the whole is left out. */
const LONGEST_PAUSE = 0.1;
const MOST_BARS = 100;

/** The bars of calls and of requests to models, in the order in which they began. */
export function barsOf(events: readonly SessionEvent[], now: number): readonly Bar[] {
  const calls = new Map<string, OpenBar>();
  const bars: OpenBar[] = [];
  const turns = new Map<number, number>();
  for (const event of events) {
    const callId = callIdOf(event);
    if (callId !== null) takeCall(event, callId, calls, bars);
    const turn = numberIn(event.data, "turn");
    if (event.kind === "model.responded" && turn !== null) {
      bars.push(modelBar(event, turns.get(turn) ?? event.at));
    }
    if (turn !== null && MODEL_STARTS.has(event.kind)) turns.set(turn, event.at);
  }
  return bars.filter((bar) => bar.seq > 0).map((bar) => ended(bar, now));
}

function modelBar(event: SessionEvent, since: number): OpenBar {
  const isWhole = event.data["status"] === "completed" || event.data["status"] === "paused";
  return {
    key: `model-${event.seq}`,
    kind: "model",
    name: textIn(event.data, "model") ?? "",
    seq: event.seq,
    spans: [{ kind: "running", from: since, to: event.at }],
    state: isWhole ? "ok" : "failed",
    waitsSince: null,
    runsSince: null,
  };
}

function takeCall(
  event: SessionEvent,
  callId: string,
  calls: Map<string, OpenBar>,
  bars: OpenBar[],
): void {
  let bar = calls.get(callId);
  if (bar === undefined) {
    bar = {
      key: `call-${callId}`,
      kind: "call",
      name: "",
      seq: 0,
      spans: [],
      state: "open",
      waitsSince: null,
      runsSince: null,
    };
    calls.set(callId, bar);
    bars.push(bar);
  }
  if (event.is_kept !== false) bar.seq = event.seq;
  const tool = event.data["tool"];
  const request = factsIn(event.data, "request");
  bar.name ||=
    textIn(event.data, "name") ??
    (typeof tool === "string" ? tool : textIn(factsIn(event.data, "tool"), "name")) ??
    textIn(factsIn(request, "tool"), "name") ??
    "";
  takeStep(event, bar);
}

function takeStep(event: SessionEvent, bar: OpenBar): void {
  switch (event.kind) {
    case "approval.requested":
      bar.waitsSince ??= event.at;
      break;
    case "approval.decided": {
      const at = numberIn(factsIn(event.data, "decided"), "at") ?? event.at;
      if (bar.waitsSince !== null)
        bar.spans.push({ kind: "waiting", from: bar.waitsSince, to: at });
      bar.waitsSince = null;
      break;
    }
    case "call.started":
    case "call.deferred":
      bar.runsSince ??= event.at;
      break;
    case "tool.invoked": {
      const seconds = numberIn(event.data, "duration_seconds") ?? 0;
      // A call that the provider ran has no start of its own.
      const from = bar.runsSince ?? (seconds > 0 ? event.at - seconds : null);
      if (bar.waitsSince !== null) {
        bar.spans.push({ kind: "waiting", from: bar.waitsSince, to: event.at });
        bar.waitsSince = null;
      }
      if (from !== null) bar.spans.push({ kind: "running", from, to: event.at });
      else if (bar.spans.length === 0)
        bar.spans.push({ kind: "running", from: event.at, to: event.at });
      bar.runsSince = null;
      bar.state = event.data["success"] === true ? "ok" : "failed";
      break;
    }
  }
}

function ended(bar: OpenBar, now: number): Bar {
  const spans = [...bar.spans];
  if (bar.state === "open" && bar.waitsSince !== null) {
    spans.push({ kind: "waiting", from: bar.waitsSince, to: Math.max(now, bar.waitsSince) });
  }
  if (bar.state === "open" && bar.runsSince !== null) {
    spans.push({ kind: "running", from: bar.runsSince, to: Math.max(now, bar.runsSince) });
  }
  return { key: bar.key, kind: bar.kind, name: bar.name, seq: bar.seq, spans, state: bar.state };
}

/** The bars with their places. Of many, those around the selected event. */
export function waterfallOf(bars: readonly Bar[], selected: number | null): Waterfall {
  const drawn = bars.filter((bar) => bar.spans.length > 0);
  const shown = around(drawn, selected);
  const scale = scaleOf(shown.flatMap((bar) => bar.spans));
  return {
    bars: shown.map((bar) => placed(bar, scale)),
    total: drawn.length,
    seconds: scale.seconds,
    cuts: scale.cuts,
  };
}

function around(bars: readonly Bar[], selected: number | null): readonly Bar[] {
  if (bars.length <= MOST_BARS) return bars;
  const place = selected === null ? -1 : bars.findIndex((bar) => bar.seq >= selected);
  const middle = place === -1 ? bars.length - 1 : place;
  const start = Math.max(0, Math.min(middle - MOST_BARS / 2, bars.length - MOST_BARS));
  return bars.slice(start, start + MOST_BARS);
}

interface Scale {
  readonly seconds: number;
  readonly cuts: readonly number[];
  readonly at: (time: number) => number;
}

/** Time without long pauses: a conversation may go on days later. */
function scaleOf(spans: readonly Span[]): Scale {
  const sorted = [...spans].sort((one, other) => one.from - other.from);
  const busy: { from: number; to: number }[] = [];
  for (const span of sorted) {
    const last = busy.at(-1);
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else busy.push({ from: span.from, to: span.to });
  }
  const active = busy.reduce((sum, each) => sum + each.to - each.from, 0);
  const longest = Math.max(active * LONGEST_PAUSE, 0.001);
  const segments: { from: number; to: number; place: number }[] = [];
  const cutTimes: number[] = [];
  let place = 0;
  for (const [index, each] of busy.entries()) {
    const before = busy[index - 1];
    if (before !== undefined) {
      const pause = each.from - before.to;
      if (pause > longest) cutTimes.push(place + longest / 2);
      place += Math.min(pause, longest);
    }
    segments.push({ ...each, place });
    place += each.to - each.from;
  }
  const seconds = Math.max(place, 0.001);
  return {
    seconds: place,
    cuts: cutTimes.map((time) => time / seconds),
    at: (time) => {
      const segment = segments.findLast((each) => each.from <= time) ?? segments[0];
      if (segment === undefined) return 0;
      const within = Math.min(Math.max(time - segment.from, 0), segment.to - segment.from);
      return (segment.place + within) / seconds;
    },
  };
}

function placed(bar: Bar, scale: Scale): PlacedBar {
  const sum = (kind: SpanKind) =>
    bar.spans
      .filter((span) => span.kind === kind)
      .reduce((seconds, span) => seconds + span.to - span.from, 0);
  return {
    ...bar,
    places: bar.spans.map((span) => {
      const start = scale.at(span.from);
      return { kind: span.kind, start, width: Math.max(scale.at(span.to) - start, 0) };
    }),
    waited: sum("waiting"),
    ran: sum("running"),
  };
}
