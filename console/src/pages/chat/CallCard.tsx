import { ChevronRight, Wrench } from "lucide-react";
import { useState } from "react";

import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { PendingApproval } from "@/pages/chat/PendingApproval";
import { PendingQuestion } from "@/pages/chat/PendingQuestion";
import { Badge, type Tone } from "@/parts/Badge";
import { duration } from "@/parts/format";
import { argumentsOf } from "@/parts/timeline/calls";
import type { CallItem, CallStatus } from "@/parts/timeline/rows";
import { Text } from "@/parts/untrusted";
import { Arguments, Result, type ResultFacts } from "@/parts/values";

const TONES: Record<CallStatus, Tone> = {
  writing: "plain",
  proposed: "plain",
  waiting: "waiting",
  approved: "accent",
  running: "accent",
  asking: "waiting",
  deferred: "plain",
  completed: "good",
  failed: "bad",
  denied: "bad",
  expired: "warn",
  in_doubt: "warn",
};

/** One call of the model: a line with its state, and below it what it was asked and answered. */
export function CallCard({ call, sessionId }: { call: CallItem; sessionId: string }) {
  const isOpen = call.status === "waiting" || call.status === "asking";
  const [isUnfolded, setIsUnfolded] = useState<boolean | null>(null);
  const isShown = isUnfolded ?? isOpen;
  const approval = call.status === "waiting" ? call.approvals.at(-1) : undefined;
  const question = call.questions.find((each) => each.end === null);
  return (
    <div className={styles.call} data-status={call.status}>
      <button
        type="button"
        className={styles.callLine}
        aria-expanded={isShown}
        onClick={() => setIsUnfolded(!isShown)}
      >
        <ChevronRight aria-hidden size={14} className={isShown ? styles.turned : undefined} />
        <Wrench aria-hidden size={14} />
        <span className={styles.callName}>
          <Text text={call.tool} />
        </span>
        <span className={styles.callBrief}>
          <Text text={brief(argumentsOf(call))} most={120} />
        </span>
        {call.duration !== null && <span className={styles.hint}>{duration(call.duration)}</span>}
        <Badge tone={TONES[call.status]}>{messages.chat.callStatus[call.status]}</Badge>
      </button>
      {call.progress !== null && call.end === null && <CallProgress call={call} />}
      {isShown && <CallBody call={call} sessionId={sessionId} />}
      {approval !== undefined && <PendingApproval approvalId={approval.approvalId} />}
      {question !== undefined && <PendingQuestion question={question} />}
    </div>
  );
}

function CallBody({ call, sessionId }: { call: CallItem; sessionId: string }) {
  const decision = call.approvals.findLast((each) => each.decision !== null)?.decision ?? null;
  return (
    <div className={styles.callBody}>
      <Arguments arguments={argumentsOf(call)} />
      {decision !== null && (
        <p className={styles.hint}>
          <Text
            text={messages.chat.decided(decision.kind, decision.actor ?? "", decision.reason ?? "")}
          />
        </p>
      )}
      {call.output !== "" && (
        <pre className={styles.output}>
          <Text text={call.output} lines />
        </pre>
      )}
      {call.end !== null && (
        <Result sessionId={sessionId} result={call.end as unknown as ResultFacts} />
      )}
    </div>
  );
}

function CallProgress({ call }: { call: CallItem }) {
  const { current, total, message } = call.progress ?? { current: 0, total: null, message: null };
  return (
    <div className={styles.progress}>
      {total !== null && (
        <progress value={current} max={total} aria-label={messages.chat.progressOf(call.tool)} />
      )}
      {message !== null && <Text text={message} most={200} />}
    </div>
  );
}

/** The arguments in a few words, for one line. */
function brief(value: unknown): string {
  if (typeof value !== "object" || value === null) return value === undefined ? "" : String(value);
  return Object.entries(value)
    .map(([name, each]) => `${name}: ${typeof each === "string" ? each : JSON.stringify(each)}`)
    .join(", ");
}
