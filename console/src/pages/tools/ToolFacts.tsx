import type { ReactNode } from "react";

import { messages } from "@/messages";
import { CopyButton } from "@/parts/CopyButton";
import { duration, money } from "@/parts/format";
import { Time } from "@/parts/Time";
import { showable, Text } from "@/parts/untrusted";

import { shortDigest, type CatalogTool, type RuleInForce } from "./catalog";
import { RuleSummary, ToolBadges } from "./ToolBadges";
import styles from "./tool.module.css";

const WORDS = messages.tools;

/** What is known of a tool, as a list of facts. */
export function ToolFacts({ tool }: { tool: CatalogTool }) {
  const { entry } = tool;
  const isSame = JSON.stringify(entry.rule) === JSON.stringify(entry.rule_for_others);
  return (
    <aside className={styles.facts} aria-label={WORDS.facts}>
      <dl>
        <Fact label={WORDS.risk}>
          <ToolBadges entry={entry} />
        </Fact>
        <Fact label={WORDS.source}>
          <Text text={entry.source} />
        </Fact>
        <Fact label={WORDS.place}>
          {WORDS.places[entry.place]}
          <span className={styles.soft}> {WORDS.placeHints[entry.place]}</span>
        </Fact>
        <Fact label={WORDS.version}>
          <Text text={entry.version} />{" "}
          {entry.digest !== "" && (
            <>
              <code title={entry.digest}>{shortDigest(entry.digest)}</code>{" "}
              <CopyButton text={entry.digest} />
            </>
          )}
        </Fact>
        <Fact label={`${WORDS.rule} · ${WORDS.forYou}`}>
          <RuleSummary rule={entry.rule} entry={entry} />
          <p className={styles.soft}>
            <Text text={entry.rule.reason} />
          </p>
          <Terms rule={entry.rule} />
        </Fact>
        {!isSame && (
          <Fact label={`${WORDS.rule} · ${WORDS.forOthers}`}>
            <RuleSummary rule={entry.rule_for_others} entry={entry} />
            <Terms rule={entry.rule_for_others} />
          </Fact>
        )}
        <Fact label={WORDS.visibility}>
          <Visibility tool={tool} />
        </Fact>
        <Fact label={WORDS.statistics}>
          <Statistics tool={tool} />
        </Fact>
        {tool.timeout != null && <Fact label={WORDS.timeout}>{duration(tool.timeout)}</Fact>}
        {tool.uses.length > 0 && (
          <Fact label={WORDS.uses}>
            <Text text={tool.uses.join(", ")} />
          </Fact>
        )}
        {tool.kind != null && (
          <Fact label={WORDS.kind}>
            <Text text={tool.kind} />
          </Fact>
        )}
        {entry.deprecated != null && (
          <Fact label={WORDS.deprecated}>
            <Text text={entry.deprecated} />
          </Fact>
        )}
      </dl>
    </aside>
  );
}

/** How long a call waits, and for whom. */
export function Terms({ rule }: { rule: RuleInForce }) {
  if (rule.effect !== "ask") return null;
  const approvers = rule.approvers.map((each) =>
    WORDS.quorum(each.count, each.groups.map((group) => showable(group)).join(", ")),
  );
  return (
    <p className={styles.soft}>
      {rule.deadline_seconds == null
        ? WORDS.waitsForever
        : WORDS.waitsFor(duration(rule.deadline_seconds))}{" "}
      {approvers.length > 0 && WORDS.approvers(approvers.join(" + "))}
    </p>
  );
}

function Visibility({ tool }: { tool: CatalogTool }) {
  const { requires, is_conditional, is_per_session } = tool.entry.visibility;
  const isForAll = requires.length === 0 && !is_conditional;
  return (
    <>
      {isForAll && `${WORDS.everySession} `}
      {requires.length > 0 &&
        `${WORDS.needsClient(requires.map((each) => showable(each)).join(", "))} `}
      {is_conditional && `${WORDS.conditional} `}
      {is_per_session && `${WORDS.perSession} `}
      {tool.entry.depends_on.includes("principal") && WORDS.byPrincipal}
    </>
  );
}

function Statistics({ tool }: { tool: CatalogTool }) {
  const { calls, failures, ...rest } = tool.entry.statistics;
  return (
    <>
      {WORDS.statisticsOf(WORDS.callCount(calls), WORDS.errorCount(failures))}
      {rest.p50_seconds != null && rest.p95_seconds != null && (
        <>
          <br />
          {WORDS.p50} {duration(rest.p50_seconds)}, {WORDS.p95} {duration(rest.p95_seconds)}
        </>
      )}
      {rest.last_used_at != null && (
        <>
          <br />
          {WORDS.lastUsed} <Time at={rest.last_used_at} />
        </>
      )}
      {rest.cost != null && (
        <>
          <br />
          {WORDS.cost} {money(rest.cost)}
        </>
      )}
    </>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}
