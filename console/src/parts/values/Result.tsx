import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, dataOf } from "@/api/client";
import { messages } from "@/messages";
import { LoadingState, wordsOf } from "@/parts/State";
import { Tabs, type Tab } from "@/parts/Tabs";
import { showable, Text } from "@/parts/untrusted";

import { contentUrl, picturesIn } from "./artifacts";
import { Json } from "./Json";
import { MentionLists } from "./MentionLists";
import { Pictures } from "./Pictures";
import { LongText, Value } from "./Value";
import styles from "./values.module.css";
import { viewOf, type Json as JsonValue } from "./view";

/** What came of a call, as its last event says it. */
export interface ResultFacts {
  readonly success: boolean;
  /** What the model sees. */
  readonly message: string;
  readonly value?: unknown;
  readonly raw?: unknown;
  readonly failure?: { readonly kind?: string; readonly message?: string } | null;
  readonly artifact_id?: string | null;
}

interface ResultProps {
  readonly sessionId: string;
  readonly result: ResultFacts;
}

/** A result: the text for the model, the value for the program, and what the provider sent. */
export function Result({ sessionId, result }: ResultProps) {
  const value = (result.value ?? null) as JsonValue;
  const raw = (result.raw ?? null) as JsonValue;
  const pictures = picturesIn([value, raw]);
  const tabs: Tab[] = [
    {
      id: "model",
      label: messages.values.forModel,
      content: <ForModel {...{ sessionId, result }} />,
    },
    { id: "program", label: messages.values.forProgram, content: <ForProgram value={value} /> },
  ];
  if (raw !== null) {
    const content = <Json value={raw} label={messages.values.raw} />;
    tabs.push({ id: "raw", label: messages.values.raw, content });
  }
  return (
    <div className={styles.section}>
      {pictures.length > 0 ? <Pictures sessionId={sessionId} pictures={pictures} /> : null}
      <MentionLists value={value} />
      <Tabs label={messages.detail.result} tabs={tabs} />
    </div>
  );
}

function ForModel({ sessionId, result }: ResultProps) {
  const [isWhole, setWhole] = useState(false);
  const artifactId = result.artifact_id ?? null;
  return (
    <div className={styles.section}>
      {result.success ? null : (
        <p className={styles.failure}>
          {messages.values.failure}
          {result.failure?.kind ? ` (${showable(result.failure.kind)})` : ""}
        </p>
      )}
      {result.message === "" ? (
        <p className={styles.quiet}>{messages.values.noText}</p>
      ) : (
        <LongText text={result.message} />
      )}
      {artifactId === null ? null : (
        <div className={styles.section}>
          <p className={styles.quiet}>
            {messages.values.whole}{" "}
            <button type="button" className={styles.more} onClick={() => setWhole(true)}>
              {messages.values.openWhole}
            </button>{" "}
            <a href={contentUrl(sessionId, artifactId)} download>
              {messages.values.download}
            </a>
          </p>
          {isWhole ? <WholeResult sessionId={sessionId} artifactId={artifactId} /> : null}
        </div>
      )}
    </div>
  );
}

/** The first page of the whole result: a longer one is to be downloaded. */
const MOST_CHARACTERS = 200_000;

function WholeResult({ sessionId, artifactId }: { sessionId: string; artifactId: string }) {
  const query = useQuery({
    queryKey: ["artifact", sessionId, artifactId],
    queryFn: async () => {
      const params = {
        path: { session_id: sessionId, artifact_id: artifactId },
        query: { limit: MOST_CHARACTERS },
      };
      return dataOf(await api.GET("/v1/sessions/{session_id}/artifacts/{artifact_id}", { params }));
    },
  });
  if (query.isPending) return <LoadingState />;
  if (query.isError) return <p className={styles.failure}>{wordsOf(query.error)}</p>;
  return <LongText text={query.data.text} />;
}

function ForProgram({ value }: { value: JsonValue }) {
  if (value === null) return <p className={styles.quiet}>{messages.values.noResult}</p>;
  const view = viewOf(value);
  return (
    <div className={styles.section}>
      <Value view={view} label={messages.values.forProgram} />
      {view.kind === "table" ? <Json value={value} /> : null}
      {view.kind === "scalar" && typeof value !== "string" ? (
        <span className={styles.quiet}>
          <Text text={typeof value} />
        </span>
      ) : null}
    </div>
  );
}
