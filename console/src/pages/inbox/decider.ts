import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";

import { api, dataOf } from "@/api/client";
import type { Approval, ApprovalContext } from "@/api/inbox";
import { decide, newKey, type Decision, type Outcome } from "@/pages/inbox/decision";

/** What a person should know about a request, and what they may do about it. */
export function useApprovalContext(approvalId: string, isEnabled = true) {
  return useQuery({
    queryKey: ["approvals", "context", approvalId],
    queryFn: async ({ signal }): Promise<ApprovalContext> => {
      const params = { path: { approval_id: approvalId } };
      const answer = await api.GET("/v1/approvals/{approval_id}/context", { params, signal });
      return dataOf(answer) as ApprovalContext;
    },
    enabled: isEnabled,
    staleTime: 15_000,
  });
}

export interface Decider {
  send: (decision: Decision) => Promise<Outcome>;
  isBusy: boolean;
  outcome: Outcome | null;
}

/** Decides one request, and remembers what became of it. */
export function useDecider(approval: Approval, onOutcome?: (outcome: Outcome) => void): Decider {
  const client = useQueryClient();
  const [isBusy, setIsBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  // The same decision, sent again because its answer was lost, must count once.
  const keys = useRef(new Map<string, string>());
  const send = useCallback(
    async (decision: Decision) => {
      const written = JSON.stringify([approval.digest, decision]);
      const key = keys.current.get(written) ?? newKey();
      keys.current.set(written, key);
      setIsBusy(true);
      const result = await decide(approval, decision, key).finally(() => setIsBusy(false));
      setOutcome(result);
      if (result.kind !== "faults" && result.kind !== "failed") {
        void client.invalidateQueries({ queryKey: ["approvals"] });
      }
      onOutcome?.(result);
      return result;
    },
    [approval, client, onOutcome],
  );
  return { send, isBusy, outcome };
}
