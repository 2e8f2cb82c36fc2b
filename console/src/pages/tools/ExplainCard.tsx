import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { SchemaForm } from "@/parts/form/SchemaForm";
import { Card } from "@/parts/Page";
import { ErrorState } from "@/parts/State";

import type { CatalogTool } from "./catalog";
import { asArguments, explain, groupsIn } from "./explanation";
import { ExplanationView } from "./ExplanationView";
import styles from "./tool.module.css";

const WORDS = messages.run;

/** For whoever may not run a tool: what would become of a call. */
export function ExplainCard({
  tool,
  values,
  onValues,
}: {
  tool: CatalogTool;
  values: unknown;
  onValues: (values: unknown) => void;
}) {
  const explanation = useExplanation(tool, values);
  return (
    <Card label={WORDS.explanation}>
      <div className={styles.stack}>
        <h2>{WORDS.explanation}</h2>
        <p className={styles.soft}>{WORDS.explanationLead}</p>
        <SchemaForm schema={tool.parameters} value={values} onChange={onValues} />
        {explanation.others}
        <div className={styles.buttons}>{explanation.button}</div>
        {explanation.view}
      </div>
    </Card>
  );
}

/** The parts of an explanation: whose call it is about, the button, and the answer. */
export function useExplanation(tool: CatalogTool, values: unknown) {
  const me = useMe();
  const [principal, setPrincipal] = useState("");
  const [groups, setGroups] = useState("");
  const mutation = useMutation({ mutationFn: explain });
  const given = asArguments(values);
  const mayAskForOthers = can(me, "auditor");
  const ask = () => {
    if (given === null) return;
    mutation.mutate({
      tool: tool.entry.name,
      source: tool.entry.source,
      arguments: given,
      principal: principal.trim() || undefined,
      groups: groupsIn(groups),
    });
  };
  return {
    others: mayAskForOthers ? (
      <div className={styles.others}>
        <Field label={WORDS.whose} hint={WORDS.whoseHint}>
          {(ids) => (
            <input
              {...ids}
              type="text"
              value={principal}
              onChange={(event) => setPrincipal(event.target.value)}
            />
          )}
        </Field>
        <Field label={WORDS.groups} hint={WORDS.groupsHint}>
          {(ids) => (
            <input
              {...ids}
              type="text"
              value={groups}
              onChange={(event) => setGroups(event.target.value)}
            />
          )}
        </Field>
      </div>
    ) : null,
    button: (
      <Button onClick={ask} disabled={mutation.isPending || given === null}>
        {WORDS.explain}
      </Button>
    ),
    view: (
      <>
        {mutation.isError && <ErrorState error={mutation.error} />}
        {mutation.data !== undefined && <ExplanationView explanation={mutation.data} />}
      </>
    ),
  };
}
