import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { DEFAULT_RANGE, RANGES, type Range } from "@/pages/activity/filters";
import { NOTHING, readOn, type ChangedCall, type DryRun } from "@/pages/policy/dry_run";
import styles from "@/pages/policy/Policy.module.css";
import { Badge, type Tone } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { EmptyState, ErrorState } from "@/parts/State";
import { Table } from "@/parts/Table";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

const words = messages.policy;

type Effect = "allow" | "ask" | "deny";
const TONES: Record<Effect, Tone> = { allow: "good", ask: "waiting", deny: "bad" };

/** What the draft would have changed in past calls. */
export function DryRunPanel({ draft, hasFaults }: { draft: string; hasFaults: boolean }) {
  const me = useMe();
  const [range, setRange] = useState<Range>(DEFAULT_RANGE);
  const { run, error, isRunning, start, goOn, stop } = useDryRun(draft, range);
  return (
    <section className={styles.part} aria-labelledby="dry-run">
      <h2 id="dry-run">{words.dryRun}</h2>
      <p className={styles.hint}>
        {words.dryRunHint} {can(me, "auditor") ? "" : words.dryRunOwn}
      </p>
      <div className={styles.controls}>
        <Field label={words.since}>
          {(ids) => (
            <select
              {...ids}
              value={range}
              onChange={(event) =>
                setRange(RANGES.find((each) => each === event.target.value) ?? DEFAULT_RANGE)
              }
            >
              {RANGES.map((each) => (
                <option key={each} value={each}>
                  {messages.activity.ranges[each]}
                </option>
              ))}
            </select>
          )}
        </Field>
        {isRunning ? (
          <Button onClick={stop}>{words.stop}</Button>
        ) : (
          <Button
            look="strong"
            disabled={hasFaults}
            {...(hasFaults ? { title: words.draftHasFaults } : {})}
            onClick={start}
          >
            {words.run}
          </Button>
        )}
        {run !== null && run.cursor !== null && !isRunning && (
          <Button onClick={goOn}>{words.goOn}</Button>
        )}
      </div>
      {hasFaults && <p className={styles.hint}>{words.draftHasFaults}</p>}
      {error !== null && <ErrorState error={error} onRetry={start} />}
      {run !== null && <RunResult run={run} isRunning={isRunning} />}
    </section>
  );
}

/** A dry run that is read page by page. Another draft or time begins anew. */
function useDryRun(draft: string, range: Range) {
  const asked = `${range} ${draft}`;
  const [result, setResult] = useState<{ asked: string; run: DryRun } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isRunning, setIsRunning] = useState(false);
  const abort = useRef<AbortController | null>(null);
  const run = result?.asked === asked ? result.run : null;
  useEffect(() => () => abort.current?.abort(), []);
  const read = (from: DryRun) => {
    const controller = new AbortController();
    abort.current?.abort();
    abort.current = controller;
    setError(null);
    setIsRunning(true);
    readOn(draft, range, from, controller.signal, (next) => setResult({ asked, run: next }))
      .catch((fault: unknown) => {
        if (!controller.signal.aborted) setError(fault);
      })
      .finally(() => {
        if (abort.current === controller) setIsRunning(false);
      });
  };
  return {
    run,
    error,
    isRunning,
    start: () => read(NOTHING),
    goOn: () => read(run ?? NOTHING),
    stop: () => {
      abort.current?.abort();
      setIsRunning(false);
    },
  };
}

function RunResult({ run, isRunning }: { run: DryRun; isRunning: boolean }) {
  return (
    <>
      <div className={styles.counts} role="status">
        <strong>{isRunning ? `${words.running}: ` : ""}</strong>
        <span>{words.lookedAt(run.looked_at)}:</span>
        <strong>{words.changed(run.changed)}</strong>
        <span>{words.unchanged(run.unchanged)}</span>
        <span>{words.unknown(run.unknown)}</span>
        {run.not_judged > 0 && <span>{words.notJudged(run.not_judged)}</span>}
      </div>
      {run.doubts.length > 0 && (
        <ul className={styles.hint}>
          {run.doubts.map((doubt) => (
            <li key={doubt.doubt}>
              {words.unknown(doubt.calls)}: {words.doubts[doubt.doubt]}
            </li>
          ))}
        </ul>
      )}
      {!isRunning && run.changed === 0 && (
        <EmptyState title={run.looked_at === 0 ? words.noCalls : words.nothingChanges}>
          {run.looked_at > 0 && <p>{words.nothingChangesHint}</p>}
        </EmptyState>
      )}
      {run.changed > 0 && <Changes run={run} />}
    </>
  );
}

const FIRST_ROWS = 50;

function Changes({ run }: { run: DryRun }) {
  const [shown, setShown] = useState(FIRST_ROWS);
  const hidden = run.calls.length - shown;
  return (
    <>
      <h3>{words.changes}</h3>
      <Table
        caption={words.changes}
        rows={run.changes}
        rowKey={(change) => `${change.tool} ${change.before} ${change.after}`}
        columns={[
          {
            id: "tool",
            label: words.tool,
            cell: (change) => <Text text={change.tool} most={80} />,
          },
          { id: "from", label: words.from, cell: (change) => <Says effect={change.before} /> },
          {
            id: "to",
            label: words.to,
            cell: (change) => (
              <span className={styles.effects}>
                <Says effect={change.after} />
                {change.before === change.after && <small>{words.sameEffect}</small>}
              </span>
            ),
          },
          { id: "calls", label: words.calls, align: "end", cell: (change) => change.calls },
        ]}
      />
      <h3>{words.changedCalls}</h3>
      <Table
        caption={words.changedCalls}
        rows={run.calls.slice(0, shown)}
        rowKey={(call) => `${call.session_id} ${call.seq} ${call.call_id ?? ""}`}
        columns={[
          {
            id: "when",
            label: words.when,
            cell: (call) => (
              <span className={styles.short}>
                <Time at={call.at} />
              </span>
            ),
          },
          {
            id: "who",
            label: words.who,
            cell: (call) => <Text text={call.principal ?? messages.activity.nobody} most={60} />,
          },
          {
            id: "tool",
            label: words.tool,
            cell: (call) => (
              <span className={styles.short}>
                <Text text={call.tool} most={60} />
              </span>
            ),
          },
          {
            id: "arguments",
            label: words.arguments,
            cell: (call) => (
              <span className={styles.arguments}>
                <Text text={call.arguments} most={160} />
              </span>
            ),
          },
          {
            id: "then",
            label: words.then,
            cell: (call) => (
              <span className={styles.short}>{messages.activity.statuses[call.status]}</span>
            ),
          },
          { id: "change", label: words.to, cell: (call) => <Change call={call} /> },
          {
            id: "open",
            label: words.open,
            cell: (call) => (
              <Link
                to="/sessions/$sessionId"
                params={{ sessionId: call.session_id }}
                search={{ event: call.seq }}
                className={styles.short}
              >
                {words.open}
              </Link>
            ),
          },
        ]}
      />
      {hidden > 0 && (
        <Button onClick={() => setShown(shown + 200)}>{words.more(Math.min(hidden, 200))}</Button>
      )}
    </>
  );
}

function Change({ call }: { call: ChangedCall }) {
  return (
    <span className={styles.effects}>
      <Says effect={call.before.effect} />
      <span aria-hidden>→</span>
      <Says effect={call.after.effect} />
      {call.before.effect === call.after.effect && <small>{words.sameEffect}</small>}
      <small>
        <Text text={call.after.rule} most={60} />
      </small>
    </span>
  );
}

export function Says({ effect }: { effect: Effect }) {
  return <Badge tone={TONES[effect]}>{words.effects[effect]}</Badge>;
}
