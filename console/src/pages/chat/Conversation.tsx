import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { MonitorSmartphone } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import type { AgentFacts } from "@/pages/chat/agent";
import styles from "@/pages/chat/chat.module.css";
import { Composer } from "@/pages/chat/Composer";
import { ContinueDialog } from "@/pages/chat/ContinueDialog";
import { ConversationRows } from "@/pages/chat/ConversationRows";
import { agentName } from "@/pages/chat/NewConversation";
import { lastTurn, phaseOf } from "@/pages/chat/phase";
import { PendingApproval } from "@/pages/chat/PendingApproval";
import { PendingQuestion } from "@/pages/chat/PendingQuestion";
import {
  cancelCall,
  cancelPrompt,
  openSession,
  resumePrompt,
  sendPrompt,
} from "@/pages/chat/prompts";
import { useSession, type SessionFacts } from "@/pages/chat/session_stream";
import { TurnStatus } from "@/pages/chat/TurnStatus";
import { Button } from "@/parts/Button";
import { ErrorState, LoadingState, wordsOf } from "@/parts/State";
import { useToast } from "@/parts/Toast";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import { Text } from "@/parts/untrusted";

/** One conversation with the agent, as it happens. */
export function Conversation({ sessionId, agent }: { sessionId: string; agent: AgentFacts }) {
  const me = useMe();
  const toast = useToast();
  const cache = useQueryClient();
  const mayCall = can(me, "caller");
  const { session, reopen } = useSession(sessionId, mayCall);
  const phase = phaseOf(session.events, session.facts);
  const mayTalk = mayCall && isOwn(session.facts, me.principal, can(me, "admin"));
  const isAtWork = phase.name === "running" || (phase.name === "waiting" && phase.isHeld);

  const isClosed = session.facts?.state !== "open";

  const open = async () => {
    await openSession(sessionId);
    reopen();
  };
  const send = async (text: string, key: string) => {
    if (isClosed) await open();
    const result = await sendPrompt(sessionId, text, key);
    if (result?.status === "failed") throw new Error(result.error ?? messages.chat.failed);
  };
  const stop = async () => {
    try {
      const wasRunning = await cancelPrompt(sessionId);
      toast(
        wasRunning
          ? { title: messages.chat.stopped, detail: messages.chat.stoppedCalls }
          : { title: messages.chat.nothingToStop },
      );
    } catch (error) {
      toast({ title: messages.parts.failed, detail: wordsOf(error), tone: "bad" });
    }
  };
  const resume = async () => {
    if (isClosed) await open();
    return resumePrompt(sessionId);
  };
  const turn = lastTurn(session.events);
  useEffect(() => {
    // The list has its title, and whether it waits.
    void cache.invalidateQueries({ queryKey: ["conversations"] });
  }, [cache, turn, phase.name]);
  const actions = useActions(sessionId, mayTalk);
  useResumption(mayTalk && !isClosed && phase.name === "waiting" && !phase.isHeld, resume);

  if (session.error !== null) {
    return <ErrorState error={session.error} onRetry={() => window.location.reload()} />;
  }
  if (!session.isLoaded) return <LoadingState />;
  return (
    <div className={styles.conversation}>
      <ConversationHeader
        sessionId={sessionId}
        agent={agent}
        facts={session.facts}
        mayClose={mayTalk && !isClosed && !isAtWork}
      />
      <ConversationRows sessionId={sessionId} session={session} actions={actions}>
        <TurnStatus
          session={session}
          phase={phase}
          onResume={mayTalk ? resume : undefined}
          onGiveUp={mayTalk ? stop : undefined}
          onOpen={mayTalk ? open : undefined}
        />
      </ConversationRows>
      {mayTalk && agent.is_configured ? (
        <Composer sessionId={sessionId} onSend={send} onStop={isAtWork ? stop : undefined} />
      ) : (
        <p className={styles.readOnly}>
          {agent.is_configured ? messages.chat.readOnly : messages.chat.noAgent}
        </p>
      )}
    </div>
  );
}

/** What a person can do about a call, where it is shown. */
function useActions(sessionId: string, mayTalk: boolean): TranscriptActions {
  const toast = useToast();
  return useMemo(() => {
    const decide: TranscriptActions["decide"] = (_, approval) => (
      <PendingApproval approvalId={approval.approvalId} />
    );
    if (!mayTalk) return { decide };
    return {
      decide,
      answer: (_, question) => <PendingQuestion question={question} sessionId={sessionId} />,
      cancel: (call) => {
        cancelCall(sessionId, call.callId).catch((error: unknown) =>
          toast({ title: messages.parts.failed, detail: wordsOf(error), tone: "bad" }),
        );
      },
    };
  }, [sessionId, mayTalk, toast]);
}

/** Whether the principal may talk in a session: its owner, or an admin. */
function isOwn(facts: SessionFacts | null, principal: string, isAdmin: boolean): boolean {
  return isAdmin || (facts !== null && facts.owner === principal);
}

/**
 * Take up a prompt that waits for an approval and that nobody holds, such as after a restart of the
 * server. It only waits then: nothing is asked of the model before somebody has decided.
 */
function useResumption(isNeeded: boolean, resume: () => Promise<unknown>): void {
  const latest = useRef(resume);
  useEffect(() => {
    latest.current = resume;
  });
  useEffect(() => {
    // Somebody else may have been faster; then the events say so.
    if (isNeeded) void latest.current().catch(() => undefined);
  }, [isNeeded]);
}

function ConversationHeader({
  sessionId,
  agent,
  facts,
  mayClose,
}: {
  sessionId: string;
  agent: AgentFacts;
  facts: SessionFacts | null;
  mayClose: boolean;
}) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <header className={styles.header}>
      <div className={styles.headerText}>
        <h2>
          <Text text={facts?.title ?? sessionId} most={120} />
        </h2>
        {agent.is_configured && <p className={styles.hint}>{agentName(agent)}</p>}
      </div>
      <div className={styles.headerActions}>
        <Link to="/sessions/$sessionId" params={{ sessionId }}>
          {messages.chat.transcript}
        </Link>
        <Button size="small" onClick={() => setIsOpen(true)}>
          <MonitorSmartphone aria-hidden size={14} />
          {messages.chat.continueElsewhere}
        </Button>
      </div>
      <ContinueDialog
        sessionId={sessionId}
        mayClose={mayClose}
        open={isOpen}
        onClose={() => setIsOpen(false)}
      />
    </header>
  );
}
