import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { ruleName } from "@/parts/rule_name";
import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { fullTime } from "@/parts/format";
import { Markdown, showable, Text, type Source } from "@/parts/untrusted";
import { contentUrl, Json, type JsonValue } from "@/parts/values";

import { factsIn, numberIn, textIn, type CallFacts, type SessionEvent } from "./call";
import styles from "./detail.module.css";
import { FactList } from "./FactList";

const words = messages.detail;

interface SummaryProps {
  readonly sessionId: string;
  readonly event: SessionEvent;
  readonly call: CallFacts | null;
}

/** What happened, who did it and what it belongs to; all else of the event below. */
export function Summary({ sessionId, event, call }: SummaryProps) {
  if (event.data["is_deleted"] === true) return <p className={styles.quiet}>{words.deleted}</p>;
  return (
    <div className={styles.stack}>
      <FactList facts={[...eventFacts(event), ...callFacts(call), ...decisionFacts(call)]} />
      <EventText event={event} />
      <Attachments sessionId={sessionId} event={event} />
      {call === null ? null : <CallEvents sessionId={sessionId} call={call} selected={event.seq} />}
      <details>
        <summary className={styles.everything}>{words.everything}</summary>
        <Json value={event.data as JsonValue} label={words.everything} />
      </details>
    </div>
  );
}

type Fact = readonly [string, ReactNode];

function text(value: string | null): ReactNode {
  return value === null ? null : <Text text={value} most={500} />;
}

function eventFacts(event: SessionEvent): readonly Fact[] {
  const turn = numberIn(event.data, "turn");
  return [
    [words.facts.kind, <code key="kind">{showable(event.kind)}</code>],
    [words.facts.at, fullTime(event.at)],
    [words.facts.turn, turn === null || turn === 0 ? null : String(turn)],
    [words.facts.model, text(textIn(event.data, "model"))],
    [words.facts.principal, text(textIn(event.data, "principal"))],
    [words.facts.transport, text(textIn(event.data, "transport"))],
  ];
}

function callFacts(call: CallFacts | null): readonly Fact[] {
  if (call === null) return [];
  const ended = call.ended?.data;
  const request = factsIn(call.requested?.data, "request");
  const tool =
    factsIn(ended, "tool") ?? factsIn(call.started?.data, "tool") ?? factsIn(request, "tool");
  const failure = factsIn(ended, "failure");
  const attempt = numberIn(call.started?.data, "attempt");
  return [
    [words.facts.tool, text(call.tool)],
    [words.facts.source, text(textIn(tool, "source"))],
    [words.facts.place, text(textIn(tool, "place"))],
    [words.facts.version, text(textIn(tool, "version"))],
    [
      words.facts.call,
      <code key="call" className={styles.hash}>
        {showable(call.callId)}
      </code>,
    ],
    [words.facts.parent, text(textIn(ended, "parent_call_id"))],
    [words.facts.attempt, attempt === null || attempt < 2 ? null : String(attempt)],
    [words.facts.status, ended === undefined ? null : <Outcome key="status" data={ended} />],
    [words.facts.failure, text(textIn(failure, "message") ?? textIn(failure, "kind"))],
  ];
}

function Outcome({ data }: { data: Readonly<Record<string, unknown>> }) {
  if (data["success"] === true) return <Badge tone="good">{words.ok}</Badge>;
  const kind = textIn(factsIn(data, "failure"), "kind") ?? messages.values.failure;
  return <Badge tone="bad">{showable(kind)}</Badge>;
}

function decisionFacts(call: CallFacts | null): readonly Fact[] {
  const request = factsIn(call?.requested?.data, "request");
  const decided = factsIn(call?.decided?.data, "decided");
  const decision = factsIn(decided, "decision");
  const deadline = numberIn(request, "deadline");
  const actor = factsIn(decided, "actor") ?? factsIn(call?.ended?.data, "decided_by");
  return [
    [words.facts.rule, text(ruleWord(textIn(request, "rule")))],
    [words.facts.reason, text(textIn(decision, "reason") ?? textIn(request, "reason"))],
    [words.facts.deadline, deadline === null || decided !== null ? null : fullTime(deadline)],
    [words.facts.decision, decisionWord(decision)],
    [words.facts.decidedBy, actorWord(actor)],
  ];
}

function ruleWord(rule: string | null): string | null {
  return rule === null ? null : ruleName(rule);
}

function decisionWord(decision: Record<string, unknown> | null): string | null {
  const kind = textIn(decision, "kind");
  if (kind === "approve" && factsIn(decision, "arguments") !== null) return words.edited;
  return isDecision(kind) ? words.decisions[kind] : kind === null ? null : showable(kind);
}

function isDecision(kind: string | null): kind is keyof typeof words.decisions {
  return kind !== null && kind in words.decisions;
}

function actorWord(actor: Record<string, unknown> | null): ReactNode {
  const kind = textIn(actor, "kind");
  const name = textIn(actor, "name");
  if (kind === "timeout") return words.deadlinePassed;
  if (name === null) return null;
  const before = kind === "rule" || kind === "grant" ? words.actors[kind] : "";
  return (
    <>
      {before}
      <Text text={kind === "rule" ? ruleName(name) : name} />
    </>
  );
}

/** The text of a prompt, of an answer or of a reply. */
function EventText({ event }: { event: SessionEvent }) {
  const written = textIn(event.data, "text");
  if (written === null) return null;
  const sources = event.data["sources"];
  return (
    <section aria-label={words.text} className={styles.text}>
      {event.kind === "prompt.answered" ? (
        <Markdown
          text={written}
          sources={Array.isArray(sources) ? (sources as readonly Source[]) : []}
          anchor={`detail-${event.seq}`}
        />
      ) : (
        <Text text={written} lines />
      )}
    </section>
  );
}

/** What was sent with a prompt; the ledger keeps what the provider was not given before. */
function Attachments({ sessionId, event }: { sessionId: string; event: SessionEvent }) {
  const written = event.data["attachments"];
  const attachments = (Array.isArray(written) ? written : []).map((each: unknown) => {
    const facts = factsIn({ each }, "each");
    return {
      name: textIn(facts, "name") ?? textIn(facts, "file_id") ?? textIn(facts, "media_type") ?? "",
      artifactId: textIn(facts, "artifact_id"),
      isBase64: textIn(facts, "content") !== "text",
    };
  });
  if (attachments.length === 0) return null;
  return (
    <section aria-label={words.attachments}>
      <h3 className={styles.heading}>{words.attachments}</h3>
      <ul className={styles.changes}>
        {attachments.map(({ name, artifactId, isBase64 }, index) => (
          <li key={index}>
            <Text text={name} most={200} />{" "}
            {artifactId === null ? null : (
              <a href={contentUrl(sessionId, artifactId, isBase64)} download>
                {messages.values.download}
              </a>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function CallEvents({
  sessionId,
  call,
  selected,
}: {
  sessionId: string;
  call: CallFacts;
  selected: number;
}) {
  const kept = call.events.filter((event) => event.is_kept !== false);
  if (kept.length < 2) return null;
  return (
    <section aria-label={words.ofCall}>
      <h3 className={styles.heading}>{words.ofCall}</h3>
      <ol className={styles.events}>
        {kept.map((event) => (
          <li key={event.seq}>
            <Link
              from="/sessions/$sessionId"
              to="/sessions/$sessionId"
              params={{ sessionId }}
              search={(before) => ({ ...before, event: event.seq })}
              aria-current={event.seq === selected ? "true" : undefined}
            >
              {event.seq} {showable(event.kind)}
            </Link>
          </li>
        ))}
      </ol>
    </section>
  );
}
