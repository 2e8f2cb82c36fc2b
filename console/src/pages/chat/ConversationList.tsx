import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";

import { api, dataOf } from "@/api/client";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { Badge } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { ErrorState, LoadingState } from "@/parts/State";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

const PAGE = 30;

/** The newest conversations: one's own, or for an auditor those of everybody. */
export function ConversationList() {
  const me = useMe();
  const isOwn = can(me, "caller");
  const list = useInfiniteQuery({
    queryKey: ["conversations", isOwn ? me.principal : ""],
    queryFn: async ({ pageParam }) => {
      const query = {
        newest_first: true,
        limit: PAGE,
        ...(isOwn ? { owner: me.principal } : {}),
        ...(pageParam === "" ? {} : { cursor: pageParam }),
      };
      return dataOf(await api.GET("/v1/sessions", { params: { query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.cursor ?? undefined,
  });
  const sessions = (list.data?.pages ?? [])
    .flatMap((page) => page.sessions)
    .filter((session) => session.turn > 0);
  return (
    <div className={styles.list}>
      {isOwn && (
        <Link to="/chat" className={styles.new}>
          <Plus aria-hidden size={16} />
          {messages.chat.newConversation}
        </Link>
      )}
      <h2>{isOwn ? messages.chat.conversations : messages.chat.conversationsOfAll}</h2>
      {list.isPending && <LoadingState />}
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} />}
      {list.isSuccess && sessions.length === 0 && (
        <p className={styles.hint}>
          {isOwn ? messages.chat.noConversations : messages.chat.nobodysConversations}
        </p>
      )}
      <ul>
        {sessions.map((session) => (
          <li key={session.session_id}>
            <Link
              to="/chat/$sessionId"
              params={{ sessionId: session.session_id }}
              className={styles.entry}
              activeProps={{ "aria-current": "page" }}
            >
              <span className={styles.entryTitle}>
                <Text text={session.title ?? messages.chat.untitled} />
              </span>
              <span className={styles.entryFacts}>
                {session.last_event_at != null && <Time at={session.last_event_at} />}
                {!isOwn && session.owner != null && <Text text={session.owner} />}
                {session.pending_approvals > 0 && (
                  <Badge tone="waiting">{messages.chat.waiting}</Badge>
                )}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {list.hasNextPage && (
        <Button size="small" onClick={() => void list.fetchNextPage()}>
          {messages.chat.more}
        </Button>
      )}
    </div>
  );
}
