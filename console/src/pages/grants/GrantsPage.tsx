import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, dataOf } from "@/api/client";
import { can, useMe } from "@/api/principal";
import type { components } from "@/api/schema";
import { messages } from "@/messages";
import styles from "@/pages/grants/Grants.module.css";
import { patternsInWords } from "@/pages/grants/pattern_words";
import { Badge } from "@/parts/Badge";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState, wordsOf } from "@/parts/State";
import { Table, type Column } from "@/parts/Table";
import { Tabs } from "@/parts/Tabs";
import { Time } from "@/parts/Time";
import { useToast } from "@/parts/Toast";
import { Text } from "@/parts/untrusted";

type Grant = components["schemas"]["GrantFacts"];

const words = messages.grants;
const route = getRouteApi("/shell/grants");
const KEY = ["grants"];

export function GrantsPage() {
  const { state } = route.useSearch();
  const navigate = route.useNavigate();
  const grants = useQuery({
    queryKey: KEY,
    queryFn: async () => dataOf(await api.GET("/v1/grants")).grants,
    refetchInterval: 15_000,
  });
  const show = (id: string) =>
    void navigate({ search: id === "past" ? { state: "past" } : {}, replace: true });
  const newestFirst = [...(grants.data ?? [])].sort((a, b) => b.created_at - a.created_at);
  return (
    <Page title={words.title} lead={words.lead}>
      {grants.isPending ? (
        <LoadingState />
      ) : grants.isError ? (
        <ErrorState error={grants.error} onRetry={() => void grants.refetch()} />
      ) : (
        <Tabs
          label={words.title}
          value={state ?? "live"}
          onChange={show}
          tabs={[
            {
              id: "live",
              label: words.live,
              content: <GrantTable grants={newestFirst.filter((grant) => grant.is_live)} isLive />,
            },
            {
              id: "past",
              label: words.past,
              content: (
                <GrantTable grants={newestFirst.filter((grant) => !grant.is_live)} isLive={false} />
              ),
            },
          ]}
        />
      )}
    </Page>
  );
}

function GrantTable({ grants, isLive }: { grants: Grant[]; isLive: boolean }) {
  const me = useMe();
  const [revoking, setRevoking] = useState<Grant | null>(null);
  if (grants.length === 0) {
    return (
      <EmptyState title={isLive ? words.emptyLive : words.emptyPast}>
        {isLive && (
          <>
            <p>{words.emptyLiveHint}</p>
            <Link to="/inbox">{words.toInbox}</Link>
          </>
        )}
      </EmptyState>
    );
  }
  const columns = isLive ? [...COLUMNS] : [...COLUMNS, STATE];
  if (isLive && can(me, "approver")) {
    columns.push({
      id: "revoke",
      label: messages.parts.actions,
      cell: (grant) => (
        <Button
          size="small"
          look="danger"
          aria-label={words.revokeWords(grant.tool)}
          onClick={() => setRevoking(grant)}
        >
          {words.revoke}
        </Button>
      ),
    });
  }
  return (
    <>
      <Table
        caption={isLive ? words.live : words.past}
        columns={columns}
        rows={grants}
        rowKey={(grant) => grant.grant_id}
      />
      {revoking !== null && <RevokeDialog grant={revoking} onClose={() => setRevoking(null)} />}
    </>
  );
}

const COLUMNS: Column<Grant>[] = [
  {
    id: "tool",
    label: words.tool,
    cell: (grant) => (
      <code>
        <Text text={grant.tool} most={120} />
      </code>
    ),
  },
  { id: "covers", label: words.covers, cell: (grant) => <Covers grant={grant} /> },
  { id: "arguments", label: words.arguments, cell: (grant) => <Patterns grant={grant} /> },
  {
    id: "uses",
    label: words.uses,
    align: "end",
    cell: (grant) => grant.uses_left ?? words.unlimited,
  },
  {
    id: "ends",
    label: words.ends,
    cell: (grant) => (grant.expires_at === null ? words.neverEnds : <Time at={grant.expires_at} />),
  },
  {
    id: "given",
    label: words.given,
    cell: (grant) => (
      <span className={styles.given}>
        <Text text={grant.created_by} most={80} />
        <small>
          <Time at={grant.created_at} />
        </small>
      </span>
    ),
  },
];

const STATE: Column<Grant> = {
  id: "state",
  label: words.state,
  cell: (grant) => {
    if (grant.is_revoked) {
      return (
        <Badge tone="warn">
          <Text text={words.revokedBy(grant.revoked_by ?? messages.parts.unknown)} most={80} />
        </Badge>
      );
    }
    return <Badge>{grant.uses_left === 0 ? words.usedUp : words.expired}</Badge>;
  },
};

function Covers({ grant }: { grant: Grant }) {
  if (grant.scope === "everyone") return <>{words.ofEveryone}</>;
  if (grant.scope === "principal") {
    return <Text text={words.ofPrincipal(grant.principal ?? "")} most={120} />;
  }
  const label = grant.scope === "once" ? words.onceIn : words.ofSession;
  if (grant.session_id === null) return <>{label}</>;
  return (
    <Link to="/sessions/$sessionId" params={{ sessionId: grant.session_id }}>
      {label}
    </Link>
  );
}

function Patterns({ grant }: { grant: Grant }) {
  const sentences = patternsInWords(grant.arguments ?? {});
  if (sentences.length === 0) return <>{words.anyArguments}</>;
  return (
    <ul>
      {sentences.map((sentence) => (
        <li key={sentence}>
          <Text text={sentence} most={300} />
        </li>
      ))}
    </ul>
  );
}

function RevokeDialog({ grant, onClose }: { grant: Grant; onClose: () => void }) {
  const toast = useToast();
  const cache = useQueryClient();
  const revoke = useMutation({
    mutationFn: async () =>
      dataOf(
        await api.DELETE("/v1/grants/{grant_id}", {
          params: { path: { grant_id: grant.grant_id } },
        }),
      ),
    onSuccess: ({ was_standing }) => {
      toast({ title: was_standing ? words.revoked : words.wasOver, tone: "good" });
      onClose();
    },
    onError: (error) => toast({ title: words.revokeFailed, detail: wordsOf(error), tone: "bad" }),
    onSettled: () => cache.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={words.revokeTitle}
      description={<Text text={words.revokeHint(grant.tool)} />}
    >
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button look="danger" disabled={revoke.isPending} onClick={() => revoke.mutate()}>
          {words.revoke}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
