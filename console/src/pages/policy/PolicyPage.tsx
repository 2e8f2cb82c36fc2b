import { useQuery } from "@tanstack/react-query";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useDeferredValue, useEffect, useState } from "react";

import { messages } from "@/messages";
import { DryRunPanel, Says } from "@/pages/policy/DryRunPanel";
import { NoteList } from "@/pages/policy/NoteList";
import {
  checkQuery,
  countsOf,
  lineOf,
  policyQuery,
  type PolicyInForce,
  type PolicyNote,
} from "@/pages/policy/notes";
import styles from "@/pages/policy/Policy.module.css";
import { Button } from "@/parts/Button";
import { CopyButton } from "@/parts/CopyButton";
import { saveFile } from "@/parts/download";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";
import { Table } from "@/parts/Table";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

const words = messages.policy;
const KEPT = "toolcrib:policy-draft";

const PolicyEditor = lazy(async () => ({
  default: (await import("@/pages/policy/PolicyEditor")).PolicyEditor,
}));

export function PolicyPage() {
  const policy = useQuery(policyQuery);
  const [draft, setDraft] = useDraft();
  return (
    <Page wide title={words.title} lead={words.lead}>
      {policy.isPending ? (
        <LoadingState />
      ) : policy.isError ? (
        <ErrorState error={policy.error} onRetry={() => void policy.refetch()} />
      ) : draft !== null ? (
        <Draft policy={policy.data} draft={draft} onChange={setDraft} />
      ) : policy.data.has_policy ? (
        <InForce policy={policy.data} onDraft={setDraft} />
      ) : (
        <NoPolicy onDraft={setDraft} />
      )}
    </Page>
  );
}

/** The draft of this tab; a reload does not lose it. */
function useDraft(): [string | null, (draft: string | null) => void] {
  const [draft, setDraft] = useState(() => sessionStorage.getItem(KEPT));
  useEffect(() => {
    if (draft === null) sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, draft);
  }, [draft]);
  return [draft, setDraft];
}

/** The line of the address, and the function that points it at another. */
function useLine(): [number | null, (line: number) => void] {
  const line = lineOf(useLocation().hash);
  const navigate = useNavigate();
  const point = (to: number) =>
    void navigate({ to: "/policy", hash: `L${to}`, replace: true, hashScrollIntoView: false });
  return [line, point];
}

const nothing = () => undefined;
const NO_NOTES: PolicyNote[] = [];

function InForce({ policy, onDraft }: { policy: PolicyInForce; onDraft: (text: string) => void }) {
  const [line, setLine] = useLine();
  const { text, newer } = policy;
  return (
    <>
      <PolicyFacts policy={policy} />
      {newer && (
        <div className={styles.banner} role="alert">
          <strong>{words.newer}</strong>
          <p>{countsOf(newer.notes).faults > 0 ? words.newerFaulty : words.newerFine}</p>
          {newer.notes.length > 0 && <NoteList notes={newer.notes} />}
          <Button onClick={() => onDraft(newer.text)}>{words.showNewer}</Button>
        </div>
      )}
      {typeof text === "string" && (
        <>
          <div className={styles.controls}>
            <Button look="strong" onClick={() => onDraft(text)}>
              {words.editDraft}
            </Button>
          </div>
          <Suspense fallback={<LoadingState />}>
            <PolicyEditor
              name="in force"
              text={text}
              label={words.editor}
              isReadOnly
              notes={policy.notes ?? NO_NOTES}
              line={line}
              onChange={nothing}
              onLine={setLine}
            />
          </Suspense>
        </>
      )}
      {(policy.notes ?? NO_NOTES).length > 0 && (
        <NoteList notes={policy.notes ?? NO_NOTES} onLine={setLine} />
      )}
      <RuleTable policy={policy} onLine={setLine} />
    </>
  );
}

function PolicyFacts({ policy }: { policy: PolicyInForce }) {
  const { file, unmatched } = policy;
  return (
    <div className={styles.facts}>
      <span>{file ? <Text text={words.inForce(file)} /> : words.byHost}</span>
      {typeof policy.loaded_at === "number" && (
        <span>
          {words.read} <Time at={policy.loaded_at} />
        </span>
      )}
      <span>{words.ruleCount((policy.rules ?? []).length)}</span>
      {unmatched && (
        <span>
          {words.unmatched} {words.unmatchedWords[unmatched]}.
        </span>
      )}
    </div>
  );
}

function RuleTable({ policy, onLine }: { policy: PolicyInForce; onLine: (line: number) => void }) {
  const rules = policy.rules ?? [];
  if (rules.length === 0) return null;
  return (
    <section className={styles.part}>
      <h2>{words.rules}</h2>
      <Table
        caption={words.rules}
        rows={rules}
        rowKey={(rule) => rule.rule}
        columns={[
          { id: "effect", label: words.effect, cell: (rule) => <Says effect={rule.effect} /> },
          { id: "tool", label: words.tool, cell: (rule) => <Text text={rule.tool} most={80} /> },
          { id: "rule", label: words.rule, cell: (rule) => <Text text={rule.rule} most={120} /> },
          {
            id: "line",
            label: words.line,
            align: "end",
            cell: (rule) =>
              typeof rule.line === "number" && policy.text ? (
                <LineLink line={rule.line} onLine={onLine} />
              ) : null,
          },
        ]}
      />
    </section>
  );
}

function LineLink({ line, onLine }: { line: number; onLine: (line: number) => void }) {
  return (
    <a
      href={`#L${line}`}
      onClick={(event) => {
        event.preventDefault();
        onLine(line);
      }}
    >
      {words.lineNumber(line)}
    </a>
  );
}

function Draft({
  policy,
  draft,
  onChange,
}: {
  policy: PolicyInForce;
  draft: string;
  onChange: (draft: string | null) => void;
}) {
  const [line, setLine] = useLine();
  const checked = useSettled(useDeferredValue(draft));
  const check = useQuery(checkQuery(checked, true));
  const notes = check.data?.notes ?? NO_NOTES;
  const isChecking = check.isFetching || checked !== draft;
  const hasFaults = check.data?.is_valid === false && countsOf(notes).faults > 0;
  return (
    <>
      <p className={styles.hint}>
        {policy.file ? <Text text={words.notWritten(policy.file)} /> : words.notWrittenNew}
      </p>
      <div className={styles.controls}>
        <CopyButton text={draft} label={words.copyDraft} />
        <Button
          size="small"
          onClick={() => saveFile(new Blob([draft], { type: "application/yaml" }), "policy.yaml")}
        >
          {words.downloadDraft}
        </Button>
        <Button size="small" look="quiet" onClick={() => onChange(null)}>
          {draft === policy.text ? words.backToFile : words.discard}
        </Button>
      </div>
      <Suspense fallback={<LoadingState />}>
        <PolicyEditor
          name="draft"
          text={draft}
          label={words.draftEditor}
          isReadOnly={false}
          notes={notes}
          line={line}
          onChange={onChange}
          onLine={setLine}
        />
      </Suspense>
      {check.isError && <ErrorState error={check.error} onRetry={() => void check.refetch()} />}
      <NoteList notes={notes} isChecking={isChecking} onLine={setLine} />
      <DryRunPanel draft={draft} hasFaults={hasFaults} />
    </>
  );
}

const PAUSE = 300;

/** A value that was left alone for a moment. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

function NoPolicy({ onDraft }: { onDraft: (text: string) => void }) {
  return (
    <EmptyState title={words.none}>
      <p>{words.noneMeans}</p>
      <p>{words.noneHow}</p>
      <pre className={styles.example}>{words.example}</pre>
      <Button look="strong" onClick={() => onDraft(words.example)}>
        {words.startDraft}
      </Button>
    </EmptyState>
  );
}
