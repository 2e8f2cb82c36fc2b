import { useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { costOf, lastTurn, type Phase, type TurnCost } from "@/pages/chat/phase";
import type { SessionView } from "@/pages/chat/session_stream";
import { Button } from "@/parts/Button";
import { money } from "@/parts/format";
import { wordsOf } from "@/parts/State";
import { Text } from "@/parts/untrusted";

export interface TurnStatusProps {
  session: SessionView;
  phase: Phase;
  /** Take the prompt up again; absent for who may only read. */
  onResume?: (() => Promise<unknown>) | undefined;
  onGiveUp?: (() => Promise<void>) | undefined;
  /** Open the session at this server again. */
  onOpen?: (() => Promise<void>) | undefined;
}

/** How it stands with the last prompt, below what was said, and what it took. */
export function TurnStatus({ session, phase, onResume, onGiveUp, onOpen }: TurnStatusProps) {
  const turn = lastTurn(session.events);
  const cost = turn === null ? null : costOf(session.events, turn);
  return (
    <div className={styles.status}>
      <p role="status" className={styles.working}>
        <StatusWords session={session} phase={phase} />
      </p>
      {phase.name === "failed" && (
        <Interrupted
          title={messages.chat.failed}
          detail={phase.error}
          hint={messages.chat.failedKept}
          {...{ onResume, onGiveUp }}
        />
      )}
      {phase.name === "cut_off" && (
        <Interrupted
          title={messages.chat.cutOff}
          detail={null}
          hint={messages.chat.cutOffHint}
          {...{ onResume, onGiveUp }}
        />
      )}
      {session.facts?.state !== "open" && onOpen !== undefined && <Closed onOpen={onOpen} />}
      {cost !== null && <CostLine cost={cost} />}
    </div>
  );
}

/** The session was closed at this server: another process may have it open. */
function Closed({ onOpen }: { onOpen: () => Promise<void> }) {
  const [fault, setFault] = useState<unknown>(null);
  return (
    <div className={styles.closed}>
      <p>{messages.chat.closed}</p>
      {fault !== null && <p className={styles.fault}>{wordsOf(fault)}</p>}
      <Button size="small" onClick={() => void onOpen().catch(setFault)}>
        {messages.chat.openHere}
      </Button>
    </div>
  );
}

function StatusWords({ session, phase }: { session: SessionView; phase: Phase }) {
  const me = useMe();
  if (session.connection === "lost") return messages.chat.connectionLost;
  switch (phase.name) {
    case "running":
      return (
        <>
          <span className={styles.pulse} aria-hidden />
          {isAsked(session) ? messages.chat.asksYou : messages.chat.working}
        </>
      );
    case "waiting":
      return can(me, "approver") ? messages.chat.waitsForYou : messages.chat.waitsForOthers;
    case "cancelled":
      return phase.by === null ? (
        messages.chat.cancelled
      ) : (
        <Text text={messages.chat.cancelledBy(phase.by)} />
      );
    default:
      return null;
  }
}

function isAsked(session: SessionView): boolean {
  return session.rows.some(
    (row) => row.kind === "calls" && row.calls.some((call) => call.status === "asking"),
  );
}

function Interrupted({
  title,
  detail,
  hint,
  onResume,
  onGiveUp,
}: {
  title: string;
  detail: string | null;
  hint: string;
  onResume: (() => Promise<unknown>) | undefined;
  onGiveUp: (() => Promise<void>) | undefined;
}) {
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const run = async (action: (() => Promise<unknown>) | undefined) => {
    setIsBusy(true);
    setFault(null);
    try {
      await action?.();
    } catch (error) {
      setFault(error);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <div className={styles.interrupted} role="alert">
      <p className={styles.interruptedTitle}>{title}</p>
      {detail !== null && (
        <p>
          <Text text={detail} lines />
        </p>
      )}
      <p className={styles.hint}>{hint}</p>
      {fault !== null && <p className={styles.fault}>{wordsOf(fault)}</p>}
      {onResume !== undefined && (
        <div className={styles.actions}>
          <Button look="strong" disabled={isBusy} onClick={() => void run(onResume)}>
            {messages.chat.goOn}
          </Button>
          <Button disabled={isBusy} onClick={() => void run(onGiveUp)}>
            {messages.chat.giveUp}
          </Button>
        </div>
      )}
    </div>
  );
}

/** What the requests of the turn took; what has no price is said. */
function CostLine({ cost }: { cost: TurnCost }) {
  const price =
    cost.cost === null
      ? messages.chat.noPrice
      : cost.isPartial
        ? messages.chat.atLeast(money(cost.cost))
        : money(cost.cost);
  return (
    <p className={styles.cost} aria-label={messages.chat.cost}>
      <span>{messages.chat.requests(cost.requests)}</span>
      <span>
        {cost.inputTokens + cost.outputTokens === 0
          ? messages.chat.noTokens
          : messages.chat.tokens(cost.inputTokens, cost.outputTokens)}
      </span>
      <span>{price}</span>
    </p>
  );
}
