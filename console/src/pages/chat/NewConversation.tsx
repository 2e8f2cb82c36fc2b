import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { agentToolsQuery, type AgentFacts } from "@/pages/chat/agent";
import styles from "@/pages/chat/chat.module.css";
import { Composer } from "@/pages/chat/Composer";
import { examplePrompts } from "@/pages/chat/examples";
import { createSession, sendPrompt } from "@/pages/chat/prompts";
import { LoadingState } from "@/parts/State";
import { showable, Text } from "@/parts/untrusted";

const MOST_SHOWN = 12;

/** The start of a conversation: who answers, with which tools, and where to begin. */
export function NewConversation({ agent }: { agent: AgentFacts }) {
  const me = useMe();
  const navigate = useNavigate();
  const [suggestion, setSuggestion] = useState<{ text: string } | null>(null);

  const begin = async (text: string, key: string) => {
    const sessionId = await createSession(key);
    const result = await sendPrompt(sessionId, text, key);
    if (result?.status === "failed" && result.turn === 0) throw new Error(result.error ?? "");
    await navigate({ to: "/chat/$sessionId", params: { sessionId } });
  };
  if (!can(me, "caller")) return <p className={styles.readOnly}>{messages.chat.readOnlyNew}</p>;
  return (
    <div className={styles.conversation}>
      <div className={styles.welcome}>
        <h2>{messages.chat.hello}</h2>
        <p>
          {messages.chat.answeredBy} <strong>{agentName(agent)}</strong>.
        </p>
        <AgentTools onExample={(text) => setSuggestion({ text })} />
      </div>
      <Composer sessionId={null} onSend={begin} suggestion={suggestion} />
    </div>
  );
}

/** The agent as a person calls it. */
export function agentName(agent: AgentFacts): string {
  const name = agent.model ?? agent.provider ?? messages.chat.agentUnknown;
  return agent.adapter == null ? name : messages.chat.agent(name, agent.adapter);
}

function AgentTools({ onExample }: { onExample: (text: string) => void }) {
  const tools = useQuery(agentToolsQuery);
  if (tools.isPending) return <LoadingState />;
  // The composer works without the list.
  if (tools.isError) return null;
  if (tools.data.length === 0) return <p>{messages.chat.noTools}</p>;
  const examples = examplePrompts(tools.data);
  return (
    <>
      <p>
        {messages.chat.toolsLead} {messages.chat.toolCount(tools.data.length)}.{" "}
        {messages.chat.needsApproval}
      </p>
      <ul className={styles.tools}>
        {tools.data.slice(0, MOST_SHOWN).map((tool) => (
          <li key={tool.name}>
            <Link to="/tools/$name" params={{ name: tool.name }} title={showable(tool.summary)}>
              <Text text={tool.name} />
            </Link>
          </li>
        ))}
        {tools.data.length > MOST_SHOWN && (
          <li>
            <Link to="/tools">{messages.chat.allTools}</Link>
          </li>
        )}
      </ul>
      {examples.length > 0 && (
        <div className={styles.examples}>
          <h3>{messages.chat.examples}</h3>
          {examples.map((example) => (
            <button
              key={example.tool}
              type="button"
              className={styles.example}
              aria-label={messages.chat.useExample(example.text)}
              onClick={() => onExample(example.text)}
            >
              <Text text={example.text} />
            </button>
          ))}
        </div>
      )}
    </>
  );
}
