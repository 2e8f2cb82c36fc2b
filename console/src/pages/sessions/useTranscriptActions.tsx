import { lazy, Suspense, useCallback, useMemo } from "react";

import { api, dataOf } from "@/api/client";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { wordsOf } from "@/parts/State";
import type { ApprovalItem, CallItem, QuestionItem } from "@/parts/timeline/rows";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import { useToast } from "@/parts/Toast";

// The forms of decisions are large, and most transcripts wait for nobody.
const InlineDecision = lazy(async () => ({
  default: (await import("@/pages/sessions/InlineDecision")).InlineDecision,
}));
const InlineQuestion = lazy(async () => ({
  default: (await import("@/pages/sessions/InlineDecision")).InlineQuestion,
}));

/** What one may do in a transcript, by one's roles: decide, answer, cancel. */
export function useTranscriptActions(sessionId: string, owner: string | null): TranscriptActions {
  const me = useMe();
  const cancel = useCancel(sessionId);
  const mayUse = can(me, "caller") && (can(me, "admin") || owner === me.principal);
  const mayDecide = can(me, "approver");
  return useMemo(
    () => ({
      ...(mayDecide ? { decide: decisionOf } : {}),
      ...(mayUse ? { cancel, answer: answerOf(sessionId) } : {}),
    }),
    [mayDecide, mayUse, cancel, sessionId],
  );
}

function decisionOf(_: CallItem, approval: ApprovalItem) {
  return (
    <Suspense>
      <InlineDecision approvalId={approval.approvalId} />
    </Suspense>
  );
}

function answerOf(sessionId: string) {
  return (_: CallItem, question: QuestionItem) => (
    <Suspense>
      <InlineQuestion sessionId={sessionId} questionId={question.questionId} />
    </Suspense>
  );
}

function useCancel(sessionId: string): (call: CallItem) => void {
  const toast = useToast();
  return useCallback(
    (call: CallItem) => {
      const path = { session_id: sessionId, call_id: call.callId };
      api
        .POST("/v1/sessions/{session_id}/calls/{call_id}/cancel", { params: { path }, body: {} })
        .then((answer) => {
          const { cancelled, notCancelled } = messages.timeline;
          toast({ title: dataOf(answer).was_running ? cancelled : notCancelled });
        })
        .catch((error: unknown) =>
          toast({ title: messages.session.notDone, detail: wordsOf(error), tone: "bad" }),
        );
    },
    [sessionId, toast],
  );
}
