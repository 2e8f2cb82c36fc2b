import { Link } from "@tanstack/react-router";
import { useId } from "react";

import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { Time } from "@/parts/Time";
import { showable, Text } from "@/parts/untrusted";
import type { Person } from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";
import { SignInRow } from "@/pages/people/SignInRow";
import { TokenRow } from "@/pages/people/TokenRow";

/** One person: roles and groups, what they left, their tokens and their sign-ins. */
export function PersonCard({ person }: { person: Person }) {
  const id = useId();
  return (
    <article className={styles.person} aria-labelledby={id}>
      <header className={styles.head}>
        <h2 id={id}>
          <Text text={person.name} />
        </h2>
        {person.roles.map((role) => (
          <Badge key={role} tone={role === "admin" ? "accent" : "plain"}>
            {role}
          </Badge>
        ))}
        {person.roles.length === 0 && <Badge tone="warn">{messages.people.noAccess}</Badge>}
      </header>
      <p className={styles.facts}>
        {person.groups.length > 0 && (
          <span>
            {messages.people.groups} <Text text={person.groups.join(", ")} />
          </span>
        )}
        <span>
          {messages.people.lastSeen}{" "}
          {person.last_seen_at === null ? messages.parts.never : <Time at={person.last_seen_at} />}
        </span>
        <span>{messages.people.sessions(person.sessions)}</span>
        <Link to="/activity" search={{ principal: person.name }}>
          {messages.people.calls(person.calls)}
        </Link>
      </p>
      {person.is_owner && <p className={styles.soft}>{messages.people.owner}</p>}
      {person.tokens.length > 0 && (
        <ul className={styles.rows} aria-label={messages.people.tokensOf(showable(person.name))}>
          {person.tokens.map((token) => (
            <TokenRow key={token.id} token={token} />
          ))}
        </ul>
      )}
      {person.sign_ins.length > 0 && (
        <ul className={styles.rows} aria-label={messages.people.signInsOf(showable(person.name))}>
          {person.sign_ins.map((signIn) => (
            <SignInRow key={signIn.id} signIn={signIn} />
          ))}
        </ul>
      )}
    </article>
  );
}
