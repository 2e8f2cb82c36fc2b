import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, ApiError } from "@/api/client";
import type { Question } from "@/api/inbox";
import { Deadline } from "@/pages/inbox/Deadline";
import { forgetDrafts, useDraft } from "@/pages/inbox/draft";
import { askerOf } from "@/pages/inbox/intent";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { SchemaForm } from "@/parts/form/SchemaForm";
import { faultsOf, type Fault } from "@/parts/form/validator";
import { wordsOf } from "@/parts/State";
import { useToast } from "@/parts/Toast";
import { showable, Text } from "@/parts/untrusted";

/** A question of a running call, with a form for its answer. */
export function QuestionCard({ question, canAnswer }: { question: Question; canAnswer: boolean }) {
  const client = useQueryClient();
  const toast = useToast();
  const [value, setValue] = useDraft<unknown>(question.question_id, () => undefined);
  const [faults, setFaults] = useState<Fault[]>([]);
  const [refusal, setRefusal] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const isValid = faultsOf(question.schema, value ?? null).length === 0;
  const send = async (body: { action: "answer"; value: unknown } | { action: "decline" }) => {
    setIsBusy(true);
    setFaults([]);
    setRefusal(null);
    try {
      const params = { path: { question_id: question.question_id } };
      await api.POST("/v1/questions/{question_id}/answer", { params, body: body as never });
      const said = body.action === "answer" ? messages.inbox.answered : messages.inbox.declined;
      toast({ title: said(showable(question.tool)), tone: "good" });
      forgetDrafts(question.question_id);
      await client.invalidateQueries({ queryKey: ["questions"] });
    } catch (error) {
      const facts = error instanceof ApiError ? (error.facts as { faults?: Fault[] }) : undefined;
      setFaults(facts?.faults ?? []);
      const isGone = error instanceof ApiError && error.status === 404;
      setRefusal(isGone ? messages.inbox.questionGone : wordsOf(error));
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <article
      className={styles.card}
      aria-label={messages.inbox.questionFrom(showable(question.tool))}
    >
      <h2 className={styles.intent}>
        <Text text={messages.inbox.questionFrom(question.tool)} />
      </h2>
      <p className={styles.question}>
        <Text text={question.text} lines />
      </p>
      <p className={styles.quiet}>
        <Text text={askerOf(question.caller)} />
        {question.deadline !== null && (
          <>
            {". "}
            <Deadline deadline={question.deadline} unanswered="expires" />
          </>
        )}
      </p>
      {question.is_secret && <p className={styles.quiet}>{messages.inbox.secret}</p>}
      {canAnswer && (
        <>
          <SchemaForm
            schema={question.schema}
            value={value}
            onChange={setValue}
            faults={faults}
            isSecret={question.is_secret}
            isDisabled={isBusy}
          />
          {refusal !== null && (
            <p role="alert" className={`${styles.note} ${styles.noteBad}`}>
              <Text text={refusal} /> {messages.decision.kept}
            </p>
          )}
          <div className={styles.buttons}>
            <Button
              look="strong"
              disabled={isBusy || !isValid}
              onClick={() => void send({ action: "answer", value: value ?? null })}
            >
              {messages.inbox.answer}
            </Button>
            <Button disabled={isBusy} onClick={() => void send({ action: "decline" })}>
              {messages.inbox.decline}
            </Button>
          </div>
        </>
      )}
    </article>
  );
}
