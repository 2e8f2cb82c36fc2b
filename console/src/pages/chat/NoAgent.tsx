import { Bot } from "lucide-react";

import { messages } from "@/messages";
import type { AgentFacts } from "@/pages/chat/agent";
import styles from "@/pages/chat/chat.module.css";
import { CopyButton } from "@/parts/CopyButton";
import { EmptyState } from "@/parts/State";

const FILE = "model: {openai: gpt-5.1}";
const COMMAND = "toolcrib serve --adapter my_module:adapter";

/** What to do at a server that has no model. */
export function NoAgent({ agent }: { agent: AgentFacts }) {
  return (
    <EmptyState title={messages.chat.noAgent} icon={<Bot aria-hidden size={28} />}>
      <p>{messages.chat.noAgentLead}</p>
      <div className={styles.setup}>
        <p>{messages.chat.noAgentFile}</p>
        <CommandLine text={FILE} />
        <p>{messages.chat.noAgentFlag}</p>
        <CommandLine text={COMMAND} />
        <p>{messages.chat.noAgentDocs}</p>
        {agent.hint !== null && agent.hint !== undefined && (
          <p className={styles.hint}>{agent.hint}</p>
        )}
      </div>
    </EmptyState>
  );
}

/** A line for a shell or a file, with a button that copies it. */
export function CommandLine({ text }: { text: string }) {
  return (
    <div className={styles.command}>
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}
