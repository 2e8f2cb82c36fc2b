import { Link } from "@tanstack/react-router";

import { can, useMe } from "@/api/principal";
import { ruleName } from "@/parts/rule_name";
import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { showable, Text } from "@/parts/untrusted";

import { EFFECT_TONES, ruleLocation, type CatalogEntry, type RuleInForce } from "./catalog";
import styles from "./tools.module.css";

/** What a tool may do, and what is special about it. */
export function ToolBadges({ entry }: { entry: CatalogEntry }) {
  return (
    <span className={styles.badges}>
      {entry.withheld != null && <Badge tone="warn">{messages.tools.withheld}</Badge>}
      <Badge tone={entry.is_read_only ? "good" : "plain"}>
        {entry.is_read_only ? messages.tools.reads : messages.tools.changes}
      </Badge>
      {entry.is_idempotent && <Badge>{messages.tools.idempotent}</Badge>}
      {entry.requires_approval && <Badge tone="waiting">{messages.tools.asksItself}</Badge>}
      {entry.deprecated != null && <Badge tone="warn">{messages.tools.deprecated}</Badge>}
    </span>
  );
}

/** What would become of a call, and by which rule. */
export function RuleSummary({ rule, entry }: { rule: RuleInForce; entry: CatalogEntry }) {
  const isHosted = entry.place === "provider";
  const words = isHosted ? messages.tools.hostedEffects : messages.tools.effects;
  return (
    <span className={styles.rule}>
      <Badge tone={EFFECT_TONES[rule.effect]}>{words[rule.effect]}</Badge>
      <span className={styles.soft}>
        <Text text={ruleName(rule.rule)} />
        <RuleLocation rule={rule} />
        {entry.depends_on.includes("arguments") && ` · ${messages.tools.byArguments}`}
      </span>
    </span>
  );
}

/** Where a rule is written; a link for whoever may see the policy. */
export function RuleLocation({ rule }: { rule: { file: string | null; line: number | null } }) {
  const me = useMe();
  const location = ruleLocation(rule);
  if (location === null) return null;
  const words = <Text text={location} />;
  const mayRead = can(me, "approver", "auditor") && rule.line !== null;
  return (
    <>
      {" "}
      <code title={rule.file === null ? undefined : showable(rule.file)}>
        {mayRead ? (
          <Link to="/policy" hash={`L${rule.line}`}>
            {words}
          </Link>
        ) : (
          words
        )}
      </code>
    </>
  );
}
