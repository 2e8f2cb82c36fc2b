import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { api, dataOf } from "@/api/client";
import { messages } from "@/messages";
import { CopyButton } from "@/parts/CopyButton";
import { Tabs, type Tab } from "@/parts/Tabs";
import { Result, type ResultFacts } from "@/parts/values";

import { ArgumentVersions } from "./ArgumentVersions";
import { Audit } from "./Audit";
import { callIdOf, callOf, factsIn, type CallFacts, type SessionEvent } from "./call";
import { Cost } from "./Cost";
import styles from "./detail.module.css";
import { Summary } from "./Summary";
import { Timing } from "./Timing";

const words = messages.detail;
/** How far back the beginning of a call is looked for when it is not loaded. */
const MOST_BEFORE = 200;

interface EventDetailProps {
  readonly sessionId: string;
  readonly seq: number;
  readonly event: SessionEvent;
  /** The events that are loaded; those of the same call are looked for among them. */
  readonly events: readonly SessionEvent[];
}

/** One event in full: what happened, the arguments, the result, cost, timing, and its proof. */
export function EventDetail({ sessionId, seq, event, events }: EventDetailProps) {
  const call = useCall(sessionId, event, events);
  const tabs = tabsOf(sessionId, event, call);
  const link = new URL(
    `/sessions/${encodeURIComponent(sessionId)}?event=${seq}`,
    window.location.origin,
  );
  return (
    <article className={styles.pane} aria-label={words.pane(seq)} data-event={seq}>
      <div className={styles.row}>
        <CopyButton text={link.href} label={words.link} />
        <CopyButton text={JSON.stringify(event, null, 2)} label={words.copyEvent} />
      </div>
      <Tabs key={seq} label={words.views} tabs={tabs} />
    </article>
  );
}

function tabsOf(sessionId: string, event: SessionEvent, call: CallFacts | null): Tab[] {
  const tabs: Tab[] = [
    { id: "summary", label: words.summary, content: <Summary {...{ sessionId, event, call }} /> },
  ];
  if (call !== null && call.versions.length > 0) {
    tabs.push({
      id: "arguments",
      label: words.arguments,
      content: <ArgumentVersions call={call} />,
    });
  }
  if (call?.ended) {
    const result = call.ended.data as unknown as ResultFacts;
    tabs.push({
      id: "result",
      label: words.result,
      content: <Result {...{ sessionId, result }} />,
    });
  }
  const billed = call?.ended?.data ?? (factsIn(event.data, "usage") === null ? null : event.data);
  if (billed !== null) {
    tabs.push({ id: "cost", label: words.cost, content: <Cost data={billed} /> });
  }
  if (call !== null) {
    tabs.push({ id: "timing", label: words.timing, content: <Timing call={call} /> });
  }
  if (event.is_kept !== false) {
    const content = <Audit sessionId={sessionId} seq={event.seq} />;
    tabs.push({ id: "audit", label: words.audit, content });
  }
  return tabs;
}

/** The call that an event is about. Its earlier events are read when they are not loaded. */
function useCall(
  sessionId: string,
  event: SessionEvent,
  events: readonly SessionEvent[],
): CallFacts | null {
  const callId = callIdOf(event);
  const first = events.find((each) => each.is_kept !== false)?.seq ?? event.seq;
  const isBegun = callId === null || events.some((each) => isBeginning(each, callId));
  const before = useQuery({
    queryKey: ["events-before", sessionId, first],
    enabled: !isBegun && first > 1,
    staleTime: Infinity,
    queryFn: async () => {
      const query = { before: first, newest_first: true, limit: MOST_BEFORE };
      const params = { path: { session_id: sessionId }, query };
      const page = dataOf(await api.GET("/v1/sessions/{session_id}/events", { params }));
      // The same address streams to those who ask for a stream.
      if (typeof page === "string") return [];
      return (page.events as unknown as SessionEvent[]).toReversed();
    },
  });
  return useMemo(() => {
    if (callId === null) return null;
    const known = events.some((each) => each.seq === event.seq) ? events : [...events, event];
    return callOf(callId, [...(before.data ?? []), ...known]);
  }, [callId, event, events, before.data]);
}

function isBeginning(event: SessionEvent, callId: string): boolean {
  const begins = event.kind === "approval.requested" || event.kind === "call.started";
  return begins && callIdOf(event) === callId;
}
