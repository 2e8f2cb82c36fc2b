import { useQuery } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { Approval, Question } from "@/api/inbox";
import { DecisionBar } from "@/pages/inbox/DecisionBar";
import { DecidedNote } from "@/pages/inbox/OutcomeNote";
import { QuestionCard } from "@/pages/inbox/QuestionCard";

/** The decision about a waiting call, in its place in the transcript. */
export function InlineDecision({ approvalId }: { approvalId: string }) {
  const approval = useQuery({
    queryKey: ["approval", approvalId],
    queryFn: async () => {
      const params = { path: { approval_id: approvalId } };
      return dataOf(await api.GET("/v1/approvals/{approval_id}", { params })) as Approval;
    },
  });
  if (approval.data === undefined) return null;
  if (approval.data.state !== "pending") return <DecidedNote approval={approval.data} />;
  return <DecisionBar approval={approval.data} onOutcome={() => void approval.refetch()} />;
}

/** The answer to the question of a running call, in its place in the transcript. */
export function InlineQuestion({
  sessionId,
  questionId,
}: {
  sessionId: string;
  questionId: string;
}) {
  const questions = useQuery({
    queryKey: ["questions", "session", sessionId],
    queryFn: async () => dataOf(await api.GET("/v1/questions")),
  });
  const question = questions.data?.questions.find((each) => each.question_id === questionId) as
    Question | undefined;
  return question === undefined ? null : <QuestionCard question={question} canAnswer />;
}
