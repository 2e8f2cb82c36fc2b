import { useQuery } from "@tanstack/react-query";
import { ServerOff } from "lucide-react";

import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";

import { ServerCard } from "./ServerCard";
import { serversQuery } from "./servers";
import styles from "./servers.module.css";

const WORDS = messages.servers;

/** The mounted MCP servers. */
export function ServersPage() {
  const query = useQuery(serversQuery);
  const away = (query.data ?? []).filter((server) => server.state !== "connected");
  return (
    <Page title={WORDS.title} lead={WORDS.lead}>
      <p className="sr-only" role="status">
        {query.data === undefined ? "" : WORDS.summary(query.data.length, away.length)}
      </p>
      {query.isPending && <LoadingState />}
      {query.isError && query.data === undefined && (
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data?.length === 0 && <NoServers />}
      {query.data?.map((server) => (
        <ServerCard
          key={`${server.session_id ?? ""} ${server.principal ?? ""} ${server.source}`}
          server={server}
        />
      ))}
    </Page>
  );
}

function NoServers() {
  return (
    <EmptyState title={WORDS.empty} icon={<ServerOff aria-hidden size={28} />}>
      <p>{WORDS.emptyHint}</p>
      <pre className={styles.sample}>{WORDS.sample}</pre>
      <p>{WORDS.emptyNext}</p>
    </EmptyState>
  );
}
