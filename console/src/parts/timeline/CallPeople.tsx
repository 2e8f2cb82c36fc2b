import { reservedRule, ruleName } from "@/parts/rule_name";
import { messages } from "@/messages";
import { Time } from "@/parts/Time";
import type { ApprovalItem, CallItem, Decision, QuestionItem } from "@/parts/timeline/rows";
import type { TranscriptActions } from "@/parts/timeline/Transcript";
import styles from "@/parts/timeline/CallCard.module.css";
import { showable, Text } from "@/parts/untrusted";
import { previewOf } from "@/parts/timeline/preview";

/** What people had to do with a call: decisions, votes, questions, and what is wanted of them now. */
export function CallPeople({ call, actions }: { call: CallItem; actions: TranscriptActions }) {
  const isWaiting = call.status === "waiting";
  return (
    <>
      {call.notes.map((note, index) => (
        <p key={index} className={styles.note}>
          <Text text={note} most={400} />
        </p>
      ))}
      {call.approvals.map((approval) => (
        <Approval
          key={approval.approvalId}
          {...{ approval }}
          form={isWaiting && approval.decision === null ? actions.decide?.(call, approval) : null}
        />
      ))}
      {call.questions.map((question) => (
        <Question
          key={question.questionId}
          {...{ question }}
          form={question.end === null ? actions.answer?.(call, question) : null}
        />
      ))}
    </>
  );
}

function Approval({ approval, form }: { approval: ApprovalItem; form: React.ReactNode }) {
  const { decision } = approval;
  return (
    <div className={styles.people} data-decision={decision?.kind ?? "none"}>
      {decision === null && (
        <p>
          {messages.timeline.asked} <Time at={approval.at} />
          {approval.rule !== null && (
            <span className={styles.faint}>
              {" · "}
              {reservedRule(approval.rule) === undefined && messages.timeline.rule}{" "}
              <Text text={ruleName(approval.rule)} most={120} />
            </span>
          )}
        </p>
      )}
      {approval.votes.map((vote) => (
        <p key={`${vote.actor ?? ""}${vote.at}`} className={styles.faint}>
          {messages.timeline.vote(vote.votes, vote.needed)}{" "}
          {vote.actor !== null && messages.timeline.by(showable(vote.actor))} <Time at={vote.at} />
        </p>
      ))}
      {decision !== null && <Decided decision={decision} />}
      {form}
    </div>
  );
}

function Decided({ decision }: { decision: Decision }) {
  const words: Record<string, string> = messages.timeline.decided;
  const kind =
    decision.kind === "approve" && decision.edited !== undefined ? "edit" : decision.kind;
  const edited = decision.edited === undefined ? [] : previewOf(decision.edited);
  return (
    <>
      <p>
        <strong>{words[kind] ?? showable(decision.kind)}</strong>{" "}
        {decision.actor !== null && messages.timeline.by(showable(decision.actor))}{" "}
        <span className={styles.faint}>
          <Time at={decision.at} />
        </span>
        {decision.reason !== null && decision.reason !== "" && (
          <>
            {": "}
            <Text text={decision.reason} most={400} />
          </>
        )}
      </p>
      {edited.length > 0 && (
        <dl className={styles.arguments} aria-label={messages.timeline.edited}>
          {edited.map(([name, text]) => (
            <div key={name}>
              <dt>
                <Text text={name} />
              </dt>
              <dd>
                <Text text={text} most={160} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

function Question({ question, form }: { question: QuestionItem; form: React.ReactNode }) {
  const { end } = question;
  const words =
    end?.kind === "answered" ? messages.timeline.answered : messages.timeline.notAnswered;
  return (
    <div className={styles.people}>
      <p>
        <strong>{messages.timeline.question}</strong> <Text text={question.text} most={600} />
      </p>
      {end !== null && (
        <p>
          {words} {end.by !== null && messages.timeline.by(showable(end.by))}{" "}
          <span className={styles.faint}>
            <Time at={end.at} />
          </span>
          {end.words !== "" && (
            <>
              {": "}
              <Text text={end.words} most={400} />
            </>
          )}
        </p>
      )}
      {form}
    </div>
  );
}
