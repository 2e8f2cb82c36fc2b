import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { messages } from "@/messages";
import { Badge } from "@/parts/Badge";
import { duration } from "@/parts/format";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

import { STATE_TONES, type ServerFacts } from "./servers";
import styles from "./servers.module.css";
import { ToolChanges } from "./ToolChanges";

const WORDS = messages.servers;

/** One mounted server: how it is, what went wrong last, its tools and what became of them. */
export function ServerCard({ server }: { server: ServerFacts }) {
  const tools = server.tools;
  const withheld = Object.entries(server.withheld);
  const isAway = server.state === "disconnected" || server.state === "invalid";
  return (
    <article className={styles.card} aria-labelledby={`server-${server.source}`}>
      <header className={styles.head}>
        <h2 id={`server-${server.source}`}>
          <Text text={server.name} />
        </h2>
        <Badge tone={STATE_TONES[server.state]}>{WORDS.states[server.state]}</Badge>
        <span className={styles.soft}>
          {WORDS.since} <Time at={server.since} />
        </span>
      </header>
      {isAway && server.last_error != null && (
        <p className={styles.fault}>
          <Text text={server.last_error} /> <span className={styles.soft}>{hintOf(server)}</span>
        </p>
      )}
      <dl className={styles.facts}>
        <Fact label={WORDS.target}>
          <Text text={server.target} /> ({WORDS.transports[server.transport]})
        </Fact>
        {server.program != null && (
          <Fact label={WORDS.program}>
            <Text text={server.program} />
          </Fact>
        )}
        <Fact label={WORDS.restarts}>{server.restarts}</Fact>
        <Fact label={WORDS.latency}>
          {server.latency_seconds == null
            ? messages.parts.unknown
            : duration(server.latency_seconds)}
        </Fact>
        <Fact label={WORDS.lastError}>
          {server.last_error == null ? (
            WORDS.noError
          ) : (
            <>
              {!isAway && (
                <>
                  <Text text={server.last_error} />{" "}
                </>
              )}
              {server.last_error_at != null && <Time at={server.last_error_at} />}
            </>
          )}
        </Fact>
        <Fact label={WORDS.approval}>{WORDS.approvals[server.approval]}</Fact>
        <Fact label={WORDS.load}>{WORDS.loadText(server.running, server.queued)}</Fact>
        {server.tried_again_at != null && (
          <Fact label={WORDS.circuit}>
            {WORDS.circuits[server.circuit]} <Time at={server.tried_again_at} />
          </Fact>
        )}
        {server.is_pinned && <Fact label={WORDS.pinned}>{WORDS.isPinned}</Fact>}
        {server.session_id != null && (
          <Fact label={WORDS.session}>
            <Link to="/sessions/$sessionId" params={{ sessionId: server.session_id }}>
              <Text text={server.session_id} />
            </Link>
          </Fact>
        )}
        <Fact label={WORDS.tools}>
          {server.session_id == null ? (
            <Link to="/tools" search={{ source: server.source }}>
              {WORDS.toolCount(tools.length)}
            </Link>
          ) : (
            WORDS.toolCount(tools.length)
          )}
        </Fact>
      </dl>
      {withheld.length > 0 && (
        <details>
          <summary>{WORDS.withheld(withheld.length)}</summary>
          <ul className={styles.list}>
            {withheld.map(([name, reason]) => (
              <li key={name}>
                <code>
                  <Text text={name} />
                </code>
                : <Text text={reason} />
              </li>
            ))}
          </ul>
        </details>
      )}
      <ToolChanges changes={server.changes} />
    </article>
  );
}

function hintOf(server: ServerFacts): ReactNode {
  if (server.state === "invalid") return WORDS.invalidHint;
  if (server.next_attempt_at == null) return null;
  return (
    <>
      {WORDS.nextAttempt} <Time at={server.next_attempt_at} />.
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
