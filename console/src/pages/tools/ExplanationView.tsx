import { Link } from "@tanstack/react-router";

import { ruleName } from "@/parts/rule_name";
import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { Table, type Column } from "@/parts/Table";
import { showable, Text } from "@/parts/untrusted";

import { EFFECT_TONES } from "./catalog";
import { OUTCOME_TONES, type Explanation } from "./explanation";
import styles from "./tool.module.css";
import { RuleLocation } from "./ToolBadges";
import { Terms } from "./ToolFacts";

const WORDS = messages.run;
type RuleFacts = NonNullable<Explanation["rules"]>[number];

/** What would become of a call, and why. */
export function ExplanationView({ explanation }: { explanation: Explanation }) {
  const { verdict, grant, faults = [], notes = [], rules = [] } = explanation;
  const groups = explanation.groups.map((group) => showable(group)).join(", ");
  return (
    <section className={styles.stack} aria-label={WORDS.explanation}>
      <p role="status">
        <Badge tone={OUTCOME_TONES[explanation.outcome]}>
          {WORDS.outcomes[explanation.outcome]}
        </Badge>{" "}
        <span className={styles.soft}>
          {WORDS.forPrincipal(showable(explanation.principal), groups)}
        </span>
      </p>
      <Faults faults={faults} />
      {verdict != null && (
        <div>
          <p>
            {WORDS.because}{" "}
            <strong>
              <Text text={ruleName(verdict.rule)} />
            </strong>
            <RuleLocation rule={verdict} />: <Text text={verdict.reason} />
          </p>
          <Terms rule={verdict} />
        </div>
      )}
      {grant != null && (
        <p>
          {WORDS.grant(showable(grant.created_by))} <Link to="/grants">{WORDS.seeGrants}</Link>
        </p>
      )}
      {notes.map((note) => (
        <p key={note} className={styles.soft}>
          <Text text={note} />
        </p>
      ))}
      {!explanation.has_policy && <p className={styles.soft}>{WORDS.noPolicy}</p>}
      {rules.length > 0 && <Rules rules={rules} />}
    </section>
  );
}

/** The arguments that do not fit, each by its place. */
export function Faults({ faults }: { faults: readonly { pointer: string; message: string }[] }) {
  if (faults.length === 0) return null;
  return (
    <div className={styles.faults} role="alert">
      <p>{WORDS.faults}</p>
      <ul>
        {faults.map((fault) => (
          <li key={fault.pointer}>
            <Text text={WORDS.fault(fault.pointer, fault.message)} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Rules({ rules }: { rules: RuleFacts[] }) {
  const columns: Column<RuleFacts>[] = [
    { id: "rule", label: WORDS.rule, cell: (rule) => <Text text={rule.rule} /> },
    {
      id: "effect",
      label: WORDS.effect,
      cell: (rule) => (
        <Badge tone={EFFECT_TONES[rule.effect]}>{messages.tools.effects[rule.effect]}</Badge>
      ),
    },
    {
      id: "part",
      label: WORDS.part,
      cell: (rule) =>
        rule.is_match ? (
          <strong>{WORDS.matches}</strong>
        ) : (
          <span className={styles.soft}>
            {WORDS.noMatch}: <Text text={rule.why_not ?? ""} />
          </span>
        ),
    },
    {
      id: "where",
      label: WORDS.where,
      cell: (rule) => <RuleLocation rule={rule} />,
    },
  ];
  return (
    <Table caption={WORDS.rules} columns={columns} rows={rules} rowKey={(rule) => rule.rule} />
  );
}
