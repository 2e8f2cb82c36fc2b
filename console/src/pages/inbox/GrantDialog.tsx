import type { DecisionDialogProps } from "@/pages/inbox/DecisionDialogs";
import { useDecider } from "@/pages/inbox/decider";
import { useDraft } from "@/pages/inbox/draft";
import { DAY, firstChoice, termsOf, type GrantChoice } from "@/pages/inbox/grant";
import { GrantPatterns } from "@/pages/inbox/GrantPatterns";
import { GrantPreview } from "@/pages/inbox/GrantPreview";
import { intentOf } from "@/pages/inbox/intent";
import { isOver, OutcomeNote } from "@/pages/inbox/OutcomeNote";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Field } from "@/parts/Field";
import { Text } from "@/parts/untrusted";

const TIMES: (number | null)[] = [3_600, 8 * 3_600, DAY, 7 * DAY, 30 * DAY, null];

/** An approval that also covers later calls: whose, with which arguments, how often, how long. */
export function GrantDialog({ approval, ways, onClose, onOutcome }: DecisionDialogProps) {
  const [choice, setChoice] = useDraft<GrantChoice>(`${approval.approval_id} grant`, () =>
    firstChoice(approval),
  );
  const { send, isBusy, outcome } = useDecider(approval, onOutcome);
  const terms = termsOf(choice);
  const mayUnbound = ways.includes("grant_everyone");
  const change = (changed: Partial<GrantChoice>) => setChoice({ ...choice, ...changed });
  return (
    <Dialog
      open
      onClose={onClose}
      size="wide"
      title={messages.decision.grantTitle}
      description={<Text text={intentOf(approval)} />}
    >
      <ScopeChoice {...{ approval, choice, change }} mayBeEveryone={mayUnbound} />
      <GrantPatterns patterns={choice.patterns} onChange={(patterns) => change({ patterns })} />
      <div className={styles.row}>
        <Field label={messages.decision.uses} hint={messages.decision.usesHint}>
          {(ids) => (
            <input
              {...ids}
              inputMode="numeric"
              value={choice.uses}
              onChange={(event) => change({ uses: event.target.value })}
            />
          )}
        </Field>
        <Field label={messages.decision.expires}>
          {(ids) => (
            <select
              {...ids}
              value={choice.seconds ?? ""}
              onChange={(event) =>
                change({ seconds: event.target.value === "" ? null : Number(event.target.value) })
              }
            >
              {TIMES.filter((seconds) => seconds !== null || mayUnbound).map((seconds) => (
                <option key={seconds} value={seconds ?? ""}>
                  {messages.decision.expiry(seconds)}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <GrantPreview approvalId={approval.approval_id} terms={terms} />
      <OutcomeNote outcome={outcome} />
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button
          look="strong"
          disabled={isBusy || terms === null || isOver(outcome)}
          onClick={() => terms !== null && void send({ decision: "approve", grant: terms })}
        >
          {messages.decision.grant}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

function ScopeChoice({
  approval,
  choice,
  change,
  mayBeEveryone,
}: Pick<DecisionDialogProps, "approval"> & {
  choice: GrantChoice;
  change: (changed: Partial<GrantChoice>) => void;
  mayBeEveryone: boolean;
}) {
  const principal = approval.caller.principal;
  const scopes: GrantChoice["scope"][] = ["session"];
  if (principal !== null) scopes.push("principal");
  if (mayBeEveryone) scopes.push("everyone");
  return (
    <fieldset className={styles.choices}>
      <legend>{messages.decision.whose}</legend>
      {scopes.map((scope) => (
        <label key={scope}>
          <input
            type="radio"
            name={`scope-${approval.approval_id}`}
            checked={choice.scope === scope}
            onChange={() => change({ scope })}
          />{" "}
          <Text text={messages.decision.scope[scope](principal ?? "")} />
        </label>
      ))}
    </fieldset>
  );
}
