import type { Approval, DecisionWay } from "@/api/inbox";
import { AnswerDialog } from "@/pages/inbox/AnswerDialog";
import type { Outcome } from "@/pages/inbox/decision";
import { DenyDialog } from "@/pages/inbox/DenyDialog";
import { EditDialog } from "@/pages/inbox/EditDialog";
import { GrantDialog } from "@/pages/inbox/GrantDialog";

export interface DecisionDialogProps {
  approval: Approval;
  ways: readonly DecisionWay[];
  onClose: () => void;
  onOutcome: (outcome: Outcome) => void;
}

/** The dialog of one way to decide. An approval as it is needs none. */
export function DecisionDialogs({ way, ...props }: DecisionDialogProps & { way: DecisionWay }) {
  switch (way) {
    case "edit":
      return <EditDialog {...props} />;
    case "deny":
      return <DenyDialog {...props} />;
    case "answer":
      return <AnswerDialog {...props} />;
    case "grant":
    case "grant_everyone":
      return <GrantDialog {...props} />;
    case "approve":
      return null;
  }
}
