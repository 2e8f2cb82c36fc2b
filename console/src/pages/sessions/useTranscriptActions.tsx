import { useCallback } from "react";

import { api, dataOf } from "@/api/client";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { wordsOf } from "@/parts/State";
import type { CallItem } from "@/parts/timeline/rows";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import { useToast } from "@/parts/Toast";

/** What one may do in a transcript, by one's roles. */
export function useTranscriptActions(sessionId: string): TranscriptActions {
  const me = useMe();
  const toast = useToast();
  const cancel = useCallback(
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
  return can(me, "caller") ? { cancel } : {};
}
