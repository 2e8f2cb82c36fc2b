import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { MessagesSquare } from "lucide-react";
import { useState } from "react";

import { messages } from "@/messages";
import { agentQuery } from "@/pages/chat/agent";
import styles from "@/pages/chat/chat.module.css";
import { Conversation } from "@/pages/chat/Conversation";
import { ConversationList } from "@/pages/chat/ConversationList";
import { NewConversation } from "@/pages/chat/NewConversation";
import { NoAgent } from "@/pages/chat/NoAgent";
import { Button } from "@/parts/Button";
import { Page } from "@/parts/Page";
import { ErrorState, LoadingState } from "@/parts/State";

/** Talk to the agent of this server: a new conversation, or one of those before. */
export function ChatPage() {
  const { sessionId } = useParams({ strict: false });
  const agent = useQuery(agentQuery);
  // On a narrow screen the list is behind a button; choosing one of it closes it.
  const [listFor, setListFor] = useState<string | null>(null);
  const isListOpen = listFor === (sessionId ?? "");
  const toggle = (
    <Button
      size="small"
      className={styles.toggle}
      aria-expanded={isListOpen}
      onClick={() => setListFor(isListOpen ? null : (sessionId ?? ""))}
    >
      <MessagesSquare aria-hidden size={14} />
      {messages.chat.showConversations}
    </Button>
  );
  return (
    <Page title={messages.chat.title} wide actions={toggle}>
      <div className={styles.page}>
        <aside
          className={styles.aside}
          aria-label={messages.chat.showConversations}
          data-open={isListOpen}
        >
          <ConversationList />
        </aside>
        <section className={styles.main} aria-label={messages.chat.conversation}>
          {agent.isPending && <LoadingState />}
          {agent.isError && <ErrorState error={agent.error} onRetry={() => void agent.refetch()} />}
          {agent.isSuccess &&
            (sessionId !== undefined ? (
              <Conversation key={sessionId} sessionId={sessionId} agent={agent.data} />
            ) : agent.data.is_configured ? (
              <NewConversation agent={agent.data} />
            ) : (
              <NoAgent agent={agent.data} />
            ))}
        </section>
      </div>
    </Page>
  );
}
