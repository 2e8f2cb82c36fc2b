import { useCallback, useState } from "react";

import type { Approval, DecisionWay } from "@/api/inbox";
import { DecisionButtons } from "@/pages/inbox/DecisionButtons";
import { DecisionDialogs } from "@/pages/inbox/DecisionDialogs";
import { useApprovalContext, useDecider } from "@/pages/inbox/decider";
import type { Outcome } from "@/pages/inbox/decision";
import { forgetDrafts } from "@/pages/inbox/draft";
import { OutcomeNote } from "@/pages/inbox/OutcomeNote";
import { useToast } from "@/parts/Toast";
import { Arguments } from "@/parts/values";

/**
 * What a person may do about a request, wherever it is shown: the buttons that the server allows
 * them, with their dialogs. The arguments are there in full, for a transcript cuts what is long and
 * nobody should approve what they cannot see. `onOutcome` hears what became of a decision.
 */
export function DecisionBar({
  approval,
  onOutcome,
}: {
  approval: Approval;
  onOutcome?: (outcome: Outcome) => void;
}) {
  const toast = useToast();
  const context = useApprovalContext(approval.approval_id);
  const [way, setWay] = useState<DecisionWay | null>(null);
  const settle = useCallback(
    (outcome: Outcome) => {
      if (outcome.kind === "done" || outcome.kind === "voted") {
        toast({ title: outcome.text, tone: "good" });
        forgetDrafts(approval.approval_id);
        setWay(null);
      }
      onOutcome?.(outcome);
    },
    [approval.approval_id, onOutcome, toast],
  );
  const { send, isBusy, outcome } = useDecider(approval, settle);
  const ways = context.data?.ways ?? [];
  return (
    <div>
      {ways.length > 0 && <Arguments schema={approval.parameters} arguments={approval.arguments} />}
      <DecisionButtons
        approval={approval}
        ways={ways}
        whyNot={context.data?.why_not ?? null}
        isBusy={isBusy}
        onWay={(chosen) =>
          chosen === "approve" ? void send({ decision: "approve" }) : setWay(chosen)
        }
      />
      {way === null && <OutcomeNote outcome={outcome} />}
      {way !== null && (
        <DecisionDialogs
          way={way}
          approval={approval}
          ways={ways}
          onClose={() => setWay(null)}
          onOutcome={settle}
        />
      )}
    </div>
  );
}
