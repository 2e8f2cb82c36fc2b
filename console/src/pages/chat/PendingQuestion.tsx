import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, dataOf } from "@/api/client";
import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { Button } from "@/parts/Button";
import { faultsOf, type Fault } from "@/parts/form/validator";
import { SchemaForm } from "@/parts/form/SchemaForm";
import { wordsOf } from "@/parts/State";
import type { QuestionItem } from "@/parts/timeline/rows";

/** A question of a running call, which goes on with the answer. */
export function PendingQuestion({
  question,
  sessionId,
}: {
  question: QuestionItem;
  sessionId: string;
}) {
  const [value, setValue] = useState<unknown>(undefined);
  const [faults, setFaults] = useState<readonly Fault[]>([]);
  const [error, setError] = useState<unknown>(null);
  const open = useQuery({
    queryKey: ["questions", sessionId, question.questionId],
    queryFn: async () => {
      const query = { session_id: sessionId };
      const { questions } = dataOf(await api.GET("/v1/questions", { params: { query } }));
      return questions.find((each) => each.question_id === question.questionId) ?? null;
    },
  });
  const settle = async (action: "answer" | "decline") => {
    const schema = open.data?.schema ?? {};
    const found = action === "answer" ? faultsOf(schema, value) : [];
    setFaults(found);
    setError(null);
    if (found.length > 0) return;
    try {
      await api.POST("/v1/questions/{question_id}/answer", {
        params: { path: { question_id: question.questionId } },
        body: action === "answer" ? { action, value } : { action },
      });
    } catch (refusal) {
      setError(refusal);
    }
  };
  return (
    <div className={styles.question}>
      {open.data != null && (
        <>
          <SchemaForm
            schema={open.data.schema}
            value={value}
            onChange={setValue}
            faults={faults}
            isSecret={open.data.is_secret}
          />
          {error !== null && <p className={styles.fault}>{wordsOf(error)}</p>}
          <div className={styles.actions}>
            <Button look="strong" onClick={() => void settle("answer")}>
              {messages.chat.answer}
            </Button>
            <Button onClick={() => void settle("decline")}>{messages.chat.decline}</Button>
          </div>
        </>
      )}
    </div>
  );
}
