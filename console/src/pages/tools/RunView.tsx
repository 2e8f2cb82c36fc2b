import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";

import { api, dataOf } from "@/api/client";
import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { duration } from "@/parts/format";
import { ErrorState, LoadingState } from "@/parts/State";
import { Text } from "@/parts/untrusted";
import { Result } from "@/parts/values";

import type { RunState } from "./run";
import styles from "./tool.module.css";
import type { Run } from "./useRun";

const WORDS = messages.run;
type Of<Phase extends RunState["phase"]> = Extract<RunState, { phase: Phase }>;

/** What becomes of a call, as it happens. */
export function RunView({ run }: { run: Run }) {
  const { state } = run;
  return (
    <div className={styles.run} aria-live="polite">
      {state.phase === "opening" && <LoadingState label={WORDS.started} />}
      {state.phase === "running" && <Running state={state} onStop={run.stop} />}
      {state.phase === "waiting" && <Waiting state={state} run={run} />}
      {state.phase === "ended" && <Ended state={state} onReset={run.reset} />}
      {state.phase === "refused" && (
        <>
          <h3>{WORDS.refused}</h3>
          <ErrorState error={state.error} />
        </>
      )}
    </div>
  );
}

function Running({ state, onStop }: { state: Of<"running">; onStop: () => void }) {
  const { progress } = state;
  return (
    <>
      <div className={styles.buttons}>
        <LoadingState label={WORDS.running} />
        <Button size="small" onClick={onStop}>
          {WORDS.stop}
        </Button>
      </div>
      {state.isLost && <p className={styles.soft}>{WORDS.lost}</p>}
      {progress !== null && (
        <p>
          <progress
            aria-label={WORDS.progress}
            value={progress.current}
            max={progress.total ?? undefined}
          />{" "}
          {progress.total !== null && WORDS.progressOf(progress.current, progress.total)}{" "}
          {progress.message !== null && <Text text={progress.message} />}
        </p>
      )}
      {state.question !== null && (
        <p>
          {WORDS.asks} <Text text={state.question} /> <Link to="/inbox">{WORDS.answerIt}</Link>
        </p>
      )}
      {state.output !== "" && (
        <pre className={styles.output} aria-label={WORDS.output}>
          <Text text={state.output} lines />
        </pre>
      )}
    </>
  );
}

/** A call that waits. It goes on here as soon as somebody has decided. */
function Waiting({ state, run }: { state: Of<"waiting">; run: Run }) {
  const { approvalId, place } = state;
  const { takeUp } = run;
  const approval = useQuery({
    queryKey: ["approvals", "one", approvalId],
    queryFn: async () => {
      const params = { path: { approval_id: approvalId } };
      return dataOf(await api.GET("/v1/approvals/{approval_id}", { params }));
    },
    // The feed of the inbox says when it changes; this is for when the feed is away.
    refetchInterval: 5_000,
  });
  const isDecided = approval.data !== undefined && approval.data.state !== "pending";
  useEffect(() => {
    if (isDecided) takeUp(place);
  }, [isDecided, place, takeUp]);
  return (
    <>
      <p>
        <Badge tone="waiting">{WORDS.waiting}</Badge>{" "}
        {approval.data !== undefined && <Text text={approval.data.reason} />}
      </p>
      <p className={styles.soft}>{isDecided ? WORDS.decided : WORDS.waitingHint}</p>
      <div className={styles.buttons}>
        <Link to="/inbox" search={{ approval: approvalId }}>
          {WORDS.decideIt}
        </Link>
        <Button size="small" onClick={run.stop}>
          {WORDS.stop}
        </Button>
      </div>
    </>
  );
}

function Ended({ state, onReset }: { state: Of<"ended">; onReset: () => void }) {
  const { result, place, seconds } = state;
  const isStopped = result.failure?.kind === "cancelled";
  const isGood = result.status === "completed";
  return (
    <>
      <div className={styles.buttons}>
        <Badge tone={isGood ? "good" : isStopped ? "plain" : "bad"}>
          {isGood ? WORDS.completed : isStopped ? WORDS.stopped : WORDS.failed}
        </Badge>
        {seconds !== null && <span className={styles.soft}>{WORDS.took(duration(seconds))}</span>}
        <Link to="/sessions/$sessionId" params={{ sessionId: place.sessionId }}>
          {WORDS.openSession}
        </Link>
        <Button size="small" look="quiet" onClick={onReset}>
          {WORDS.again}
        </Button>
      </div>
      <Result
        sessionId={place.sessionId}
        result={{
          success: isGood,
          message: result.text,
          value: result.value,
          failure: result.failure ?? null,
          artifact_id: result.artifact_id ?? null,
        }}
      />
    </>
  );
}
