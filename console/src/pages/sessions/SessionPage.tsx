import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { memo, useCallback, useDeferredValue, useEffect, useMemo, useState } from "react";

import { api, ApiError, dataOf } from "@/api/client";
import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { useNow } from "@/parts/Time";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";
import { choicesOf, filterRows, findRows, stopsOf } from "@/parts/timeline/filter";
import type { Envelope } from "@/parts/timeline/envelope";
import { OPEN } from "@/parts/timeline/rows";
import { Transcript } from "@/parts/timeline/Transcript";
import { useSessionFeed, type Feed } from "@/parts/timeline/useSessionFeed";
import { showable } from "@/parts/untrusted";
import { Waterfall } from "@/pages/sessions/detail";
import { EventPane } from "@/pages/sessions/EventPane";
import { withFilter, type SessionSearch } from "@/pages/sessions/search";
import { SessionLead } from "@/pages/sessions/SessionLead";
import { SessionMenu } from "@/pages/sessions/SessionMenu";
import { TranscriptFilters } from "@/pages/sessions/TranscriptFilters";
import { useArrowKeys } from "@/pages/sessions/useArrowKeys";
import { useTranscriptActions } from "@/pages/sessions/useTranscriptActions";
import styles from "@/pages/sessions/SessionPage.module.css";

const LOOK_AGAIN = 5_000;
/** From so many pixels on there is room for the waterfall above the transcript. */
const WIDE = 900;
/** How many events the waterfall shows. */
const NEAR = 600;

/** One session: its transcript, live, and the details of the chosen event. */
export function SessionPage() {
  const { sessionId } = useParams({ from: "/shell/sessions/$sessionId" });
  // A page of its own for each session: nothing of one is shown in another.
  return <OneSession key={sessionId} sessionId={sessionId} />;
}

function OneSession({ sessionId }: { sessionId: string }) {
  const feed = useSessionFeed(sessionId);
  const facts = useQuery({
    queryKey: ["session", sessionId],
    queryFn: async () => {
      const params = { path: { session_id: sessionId } };
      return dataOf(await api.GET("/v1/sessions/{session_id}", { params }));
    },
    refetchInterval: LOOK_AGAIN,
  });
  const error = facts.error ?? feed.error;
  const isGone = error instanceof ApiError && error.status === 404;
  const title = facts.data?.title ?? messages.session.title;
  if (isGone) return <Gone />;
  return (
    <Page
      title={showable(title)}
      wide
      lead={<SessionLead sessionId={sessionId} facts={facts.data} feed={feed} />}
      actions={facts.data && <SessionMenu facts={facts.data} feed={feed} />}
    >
      {feed.isLoading ? (
        <LoadingState />
      ) : error !== null && feed.rows.length === 0 ? (
        <ErrorState error={error} onRetry={feed.retry} />
      ) : (
        <Body sessionId={sessionId} feed={feed} owner={facts.data?.owner ?? null} />
      )}
    </Page>
  );
}

function Gone() {
  return (
    <Page title={messages.session.title}>
      <EmptyState title={messages.session.gone}>
        <Link to="/sessions">{messages.session.all}</Link>
      </EmptyState>
    </Page>
  );
}

/** The rows of the transcript that the address asks for. */
function useShownRows(feed: Feed, search: SessionSearch) {
  const { tool, status, place, all, event } = search;
  const chosen = event === undefined ? null : feed.rowOf(event);
  const rows = useMemo(
    () => filterRows(feed.rows, { tool, status, place, all, chosen }),
    [feed.rows, tool, status, place, all, chosen],
  );
  const matches = useMemo(() => findRows(rows, search.find ?? ""), [rows, search.find]);
  const settled = useDeferredValue(rows);
  const whole = useDeferredValue(feed.rows);
  const stops = useMemo(() => stopsOf(settled), [settled]);
  return { rows, matches, stops, choices: useMemo(() => choicesOf(whole), [whole]) };
}

interface BodyProps {
  sessionId: string;
  feed: Feed;
  owner: string | null;
}

function Body({ sessionId, feed, owner }: BodyProps) {
  const search = useSearch({ from: "/shell/sessions/$sessionId" });
  const navigate = useNavigate({ from: "/sessions/$sessionId" });
  const { rows, matches, stops, choices } = useShownRows(feed, search);
  const [match, setMatch] = useState(0);
  const selected = search.event ?? null;
  const { loadTo } = feed;
  const change = useCallback(
    (next: SessionSearch) => void navigate({ search: next, replace: true, resetScroll: false }),
    [navigate],
  );
  const select = useCallback(
    (event: number | null) =>
      void navigate({
        search: (before) => withFilter(before, "event", event ?? undefined),
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
  useEffect(() => {
    if (selected !== null) void loadTo(selected);
  }, [selected, loadTo]);
  useArrowKeys({ stops, selected, callOf: feed.callOf, rowOf: feed.rowOf, select });
  const actions = useTranscriptActions(sessionId, owner);
  const at = matches.length === 0 ? 0 : match % matches.length;
  const event = selected === null ? undefined : feed.events.find((each) => each.seq === selected);
  const found = search.find === undefined ? null : (matches[at] ?? null);
  return (
    <>
      <TranscriptFilters
        search={search}
        choices={choices}
        matches={matches.length}
        match={at}
        hasOlder={feed.hasOlder}
        onChange={(next) => {
          setMatch(0);
          change(next);
        }}
        onMatch={(step) => setMatch((at + step + matches.length) % Math.max(matches.length, 1))}
        onOlder={() => void loadTo(1)}
      />
      <Strip feed={feed} selected={selected} onSelect={select} />
      <div className={styles.body} data-split={selected !== null}>
        <div className={styles.transcript}>
          {rows.length === 0 ? (
            <Nothing hasAny={feed.rows.length > 0} />
          ) : (
            <Transcript
              {...{ sessionId, feed, rows, selected, found }}
              {...actions}
              onSelect={select}
            />
          )}
        </div>
        {selected !== null && (
          <EventPane
            sessionId={sessionId}
            seq={selected}
            event={event}
            events={feed.events}
            isLoading={event === undefined && feed.hasOlder}
            onClose={() => select(null)}
          />
        )}
      </div>
    </>
  );
}

const Bars = memo(Waterfall);

/** The events around the chosen one, else the last: a strip has no room for more. */
function eventsNear(events: readonly Envelope[], selected: number | null): readonly Envelope[] {
  if (events.length <= NEAR) return events;
  const first = events[0]?.seq ?? 0;
  const at = selected === null ? events.length : selected - first;
  const begin = Math.max(0, Math.min(at - NEAR / 2, events.length - NEAR));
  return events.slice(begin, begin + NEAR);
}

/** When calls waited and ran. Its time runs only while a call does. */
function Strip({
  feed,
  selected,
  onSelect,
}: {
  feed: Feed;
  selected: number | null;
  onSelect: (seq: number) => void;
}) {
  const now = useNow();
  const [isWide] = useState(() => window.innerWidth >= WIDE);
  const isRunning = useMemo(
    () =>
      feed.rows.some(
        (row) => row.kind === "calls" && row.calls.some((call) => OPEN.has(call.status)),
      ),
    [feed.rows],
  );
  // Drawn when there is time: the transcript comes first.
  const events = useDeferredValue(feed.events);
  const near = useMemo(() => eventsNear(events, selected), [events, selected]);
  if (feed.events.length === 0) return null;
  const end = isRunning && feed.state === "live" ? now : (feed.events.at(-1)?.at ?? now);
  return (
    <details className={styles.strip} open={isWide}>
      <summary>{messages.session.waterfall}</summary>
      <Bars events={near} selected={selected} onSelect={onSelect} now={end} />
    </details>
  );
}

function Nothing({ hasAny }: { hasAny: boolean }) {
  return hasAny ? (
    <EmptyState title={messages.session.noMatch} />
  ) : (
    <EmptyState title={messages.session.empty}>
      <p>{messages.session.emptyHint}</p>
    </EmptyState>
  );
}
