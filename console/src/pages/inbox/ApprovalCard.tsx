import { Link } from "@tanstack/react-router";
import { memo, startTransition, useEffect, useRef, useState } from "react";

import type { Approval, ApprovalContext, DecisionWay } from "@/api/inbox";
import { can, useMe } from "@/api/principal";
import { Deadline } from "@/pages/inbox/Deadline";
import { useApprovalContext } from "@/pages/inbox/decider";
import { decidedText, type Outcome } from "@/pages/inbox/decision";
import { DecisionButtons } from "@/pages/inbox/DecisionButtons";
import { askerOf, intentOf } from "@/pages/inbox/intent";
import styles from "@/pages/inbox/inbox.module.css";
import { OutcomeNote } from "@/pages/inbox/OutcomeNote";
import { WhatChanged } from "@/pages/inbox/WhatChanged";
import { reservedRule } from "@/parts/rule_name";
import { messages } from "@/messages";
import { Badge, type Tone } from "@/parts/Badge";
import { showable, Text } from "@/parts/untrusted";
import { Arguments } from "@/parts/values";

const RISK: Record<string, Tone> = { read_only: "good", idempotent: "plain", changes: "warn" };
/** How long a card is in sight before what is around its call is read, in milliseconds. */
const GLANCE = 120;

export interface CardProps {
  approval: Approval;
  isActive: boolean;
  isSelected: boolean;
  isBusy: boolean;
  outcome: Outcome | null;
  onActive: (approvalId: string) => void;
  onSelect: (approvalId: string) => void;
  onWay: (approval: Approval, ways: readonly DecisionWay[], way: DecisionWay) => void;
}

/** The heights of cards that were shown whole, so that nothing moves when they come back. */
const heights = new Map<string, number>();
const USUAL_HEIGHT = 380;

/** A request as a card: all that a person needs to decide, and what they may do. */
export const ApprovalCard = memo(function ApprovalCard(props: CardProps) {
  const { approval, isActive } = props;
  const isLookedAt = useGlance() || isActive;
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isLookedAt && card.current !== null) {
      heights.set(approval.approval_id, card.current.offsetHeight);
    }
  });
  const height = heights.get(approval.approval_id) ?? USUAL_HEIGHT;
  return (
    <article
      ref={card}
      className={`${styles.card} ${isActive ? styles.active : ""}`}
      style={isLookedAt ? undefined : { minHeight: height }}
      aria-label={showable(intentOf(approval))}
      aria-current={isActive}
      data-approval={approval.approval_id}
      tabIndex={-1}
      onFocus={() => props.onActive(approval.approval_id)}
      onClickCapture={() => props.onActive(approval.approval_id)}
    >
      {isLookedAt ? (
        <WholeCard {...props} />
      ) : (
        <h2 className={styles.intent}>
          <Text text={intentOf(approval)} />
        </h2>
      )}
    </article>
  );
});

function WholeCard(props: CardProps) {
  const { approval, isActive, isSelected } = props;
  const { data: context } = useApprovalContext(approval.approval_id);
  const isOpen = approval.state === "pending";
  const canSelect = isOpen && context !== undefined && context.ways.length > 0;
  return (
    <>
      <header className={styles.head}>
        {canSelect && (
          <input
            type="checkbox"
            className={styles.select}
            checked={isSelected}
            aria-label={messages.inbox.select(showable(approval.tool))}
            onChange={() => props.onSelect(approval.approval_id)}
          />
        )}
        <h2 className={styles.intent}>
          <Text text={intentOf(approval)} />
        </h2>
      </header>
      {approval.supersedes !== null && <p className={styles.warn}>{messages.inbox.supersedes}</p>}
      <Badges approval={approval} context={context} />
      <Facts approval={approval} context={context} />
      <Arguments schema={approval.parameters} arguments={approval.arguments} />
      {context === undefined ? (
        <div className={styles.placeholder} />
      ) : (
        <WhatChanged context={context} />
      )}
      <OutcomeNote outcome={props.outcome} />
      {isOpen ? (
        <DecisionButtons
          approval={approval}
          ways={context?.ways ?? []}
          whyNot={context?.why_not ?? null}
          isBusy={props.isBusy}
          keys={isActive ? "active" : "idle"}
          onWay={(way) => props.onWay(approval, context?.ways ?? [], way)}
        />
      ) : (
        <p className={styles.note}>
          <Text text={decidedText(approval)} />
        </p>
      )}
    </>
  );
}

/** Whether the card has been there for a moment: one that is only scrolled past reads nothing. */
function useGlance(): boolean {
  const [isIn, setIsIn] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => {
      // Several cards come into sight at once: the page answers to keys between them.
      startTransition(() => setIsIn(true));
    }, GLANCE);
    return () => clearTimeout(timer);
  }, []);
  return isIn;
}

interface Told {
  approval: Approval;
  context: ApprovalContext | undefined;
}

function Badges({ approval, context }: Told) {
  const risk = context?.risk ?? null;
  return (
    <p className={styles.badges}>
      <Badge tone="accent">
        <Text text={approval.tool} />
      </Badge>
      <Badge>
        <Text text={messages.inbox.source(approval.tool_source)} />
      </Badge>
      <Badge>{messages.inbox.place(approval.place)}</Badge>
      {risk !== null && (
        <Badge tone={RISK[risk] ?? "plain"} title={messages.inbox.riskHint}>
          {messages.inbox.risk[risk]}
        </Badge>
      )}
      <Votes approval={approval} />
    </p>
  );
}

function Votes({ approval }: { approval: Approval }) {
  return approval.approvers.map((quorum) => (
    <Badge key={`${quorum.count} ${quorum.groups.join()}`} tone="waiting">
      <Text text={messages.inbox.needs(quorum.count, quorum.groups.join(" or "))} />
      {quorum.count > 1 && `: ${messages.inbox.votes(approval.votes.length, quorum.count)}`}
    </Badge>
  ));
}

function Facts({ approval, context }: Told) {
  const reserved = reservedRule(approval.rule);
  const words = context?.last_words ?? null;
  const prompt = context?.prompt ?? null;
  return (
    <dl className={styles.facts}>
      <dt>{messages.inbox.asks}</dt>
      <dd>
        <Text text={askerOf(approval.caller)} />
      </dd>
      <dt>{messages.inbox.session}</dt>
      <dd>
        <SessionName approval={approval} context={context} />
      </dd>
      {prompt !== null && (
        <>
          <dt>{messages.inbox.prompt}</dt>
          <dd className={styles.words}>
            <Text text={prompt} most={400} />
          </dd>
        </>
      )}
      {words !== null && (
        <>
          <dt>{messages.inbox.lastWords}</dt>
          <dd className={styles.words}>
            <Text text={words.slice(-400)} />
          </dd>
        </>
      )}
      <dt>{messages.inbox.rule}</dt>
      <dd>
        <Text text={reserved ?? approval.rule} />
        {approval.reason !== "" && reserved === undefined && (
          <>
            : <Text text={approval.reason} />
          </>
        )}
        <RuleLine rule={context?.rule} />
      </dd>
      {approval.votes.length > 0 && (
        <>
          <dt>{messages.inbox.votes(approval.votes.length, neededBy(approval))}</dt>
          <dd>
            <Text text={messages.inbox.votedBy(approval.votes.map((each) => each.by).join(", "))} />
            {approval.edited_arguments !== null && ` ${messages.inbox.editedVotes}`}
          </dd>
        </>
      )}
      {approval.state === "pending" && (
        <>
          <dt>{messages.inbox.unanswered}</dt>
          <dd>
            <Deadline deadline={approval.deadline} unanswered={context?.unanswered} />
          </dd>
        </>
      )}
    </dl>
  );
}

/** Where the rule stands, for those who may read the policy. */
function RuleLine({ rule }: { rule: ApprovalContext["rule"] | undefined }) {
  const me = useMe();
  const line = rule?.line ?? null;
  if (rule === undefined || line === null) return null;
  const place = <Text text={messages.inbox.ruleAt(rule.file ?? "", line)} />;
  return (
    <>
      {" ("}
      {can(me, "approver", "auditor") ? (
        <Link to="/policy" hash={`L${line}`}>
          {place}
        </Link>
      ) : (
        place
      )}
      )
    </>
  );
}

function neededBy(approval: Approval): number {
  return Math.max(...approval.approvers.map((each) => each.count), 1);
}

function SessionName({ approval, context }: Told) {
  const name = context?.session_title ?? approval.session_id;
  if (context?.may_read_session !== true) return <Text text={name} most={120} />;
  return (
    <Link to="/sessions/$sessionId" params={{ sessionId: approval.session_id }}>
      <Text text={name} most={120} />
    </Link>
  );
}
