import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { SchemaForm } from "@/parts/form/SchemaForm";
import { faultsOf, type Fault } from "@/parts/form/validator";
import { Card } from "@/parts/Page";
import { showable } from "@/parts/untrusted";

import type { CatalogEntry, CatalogTool } from "./catalog";
import { useExplanation } from "./ExplainCard";
import { Faults } from "./ExplanationView";
import { asArguments } from "./explanation";
import type { RunState } from "./run";
import { RunView } from "./RunView";
import styles from "./tool.module.css";
import { useRun } from "./useRun";

const WORDS = messages.run;
const route = getRouteApi("/shell/tools/$name");

/** The form that runs a tool through the real gate, with what the policy would say beside it. */
export function RunCard({
  tool,
  values,
  onValues,
}: {
  tool: CatalogTool;
  values: unknown;
  onValues: (values: unknown) => void;
}) {
  const me = useMe();
  const [isTried, setIsTried] = useState(false);
  const [isJson, setIsJson] = useState(true);
  const [sent, setSent] = useState<string | null>(null);
  const { entry } = tool;
  const run = useToolRun(entry);
  const explanation = useExplanation(tool, values);
  const isBusy = run.state.phase === "opening" || run.state.phase === "running";
  const given = isJson ? asArguments(values) : null;
  const own = useMemo(() => faultsOfCall(tool, given), [tool, given]);
  // What the server found is about what was sent, and no longer true of anything else.
  const refused = JSON.stringify(values) === sent ? faultsIn(run.state) : NO_FAULTS;
  const shown = isTried && own.length > 0 ? own : refused;
  const start = () => {
    setIsTried(true);
    if (given === null || own.length > 0) return;
    setSent(JSON.stringify(values));
    run.start(given);
  };
  return (
    <Card label={WORDS.title}>
      <div className={styles.stack}>
        <h2>{entry.is_callable ? WORDS.title : WORDS.notHere}</h2>
        <p className={styles.soft}>
          {entry.is_callable ? WORDS.lead(showable(me.principal)) : whyNot(entry)}
        </p>
        <SchemaForm
          schema={tool.parameters}
          value={values}
          onChange={onValues}
          onText={setIsJson}
          faults={shown}
          isDisabled={isBusy}
        />
        <Faults faults={shown} />
        <div className={styles.buttons}>
          {entry.is_callable && (
            <Button look="strong" onClick={start} disabled={isBusy}>
              {isBusy ? WORDS.running : WORDS.run}
            </Button>
          )}
          {explanation.button}
        </div>
        {explanation.others !== null && (
          <details>
            <summary>{WORDS.explainOthers}</summary>
            {explanation.others}
          </details>
        )}
        <RunView run={run} />
        {explanation.view}
      </div>
    </Card>
  );
}

const NO_FAULTS: readonly Fault[] = [];

/** What is wrong with the arguments, before anything is sent. */
function faultsOfCall(tool: CatalogTool, given: object | null): readonly Fault[] {
  if (given === null) return [{ pointer: "", message: WORDS.notObject }];
  return faultsOf(tool.parameters, given);
}

/** A run whose waiting call is in the address, so that it survives a reload. */
function useToolRun(entry: CatalogEntry) {
  const cache = useQueryClient();
  const navigate = route.useNavigate();
  const { session, call } = route.useSearch();
  const refresh = useCallback(() => {
    void cache.invalidateQueries({ queryKey: ["catalog"] });
    void cache.invalidateQueries({ queryKey: ["calls"] });
    void cache.invalidateQueries({ queryKey: ["approvals"] });
  }, [cache]);
  const run = useRun(entry.name, entry.id, refresh);
  const { takeUp } = run;
  const { phase } = run.state;
  const place = run.state.phase === "waiting" ? run.state.place : null;
  const taken = useRef<string | null>(null);
  useEffect(() => {
    if (session === undefined || call === undefined || taken.current === call) return;
    taken.current = call;
    takeUp({ sessionId: session, callId: call, tool: entry.name });
  }, [session, call, takeUp, entry.name]);
  useEffect(() => {
    if (place !== null) taken.current = place.callId;
    const next = place === null ? {} : { session: place.sessionId, call: place.callId };
    if (phase === "idle" || phase === "running") return;
    void navigate({
      search: ({ source, range }) => ({ source, range, ...next }),
      replace: true,
    });
  }, [place, phase, navigate]);
  return run;
}

/** What the server found wrong with the arguments of a call. */
function faultsIn(state: RunState): readonly Fault[] {
  if (state.phase !== "ended") return NO_FAULTS;
  return (state.result.failure?.faults ?? []).map(({ pointer, message }) => ({ pointer, message }));
}

function whyNot(entry: CatalogEntry): string {
  if (entry.place === "provider") return WORDS.notHereProvider;
  if (entry.withheld != null) return WORDS.notHereWithheld;
  return entry.place === "client" ? WORDS.notHereClient : WORDS.notHereCapability;
}
