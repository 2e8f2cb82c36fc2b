import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { api, dataOf } from "@/api/client";
import { follow } from "@/api/events";
import type { components } from "@/api/schema";
import { setConnection } from "@/shell/connection";

/* The server leaves no field out; the document calls those with a default optional. */
export type Approval = Required<components["schemas"]["ApprovalFacts"]>;
export type ApprovalContext = Required<components["schemas"]["ApprovalContext"]>;
export type InboxState = Required<components["schemas"]["InboxState"]>;
export type Question = Required<components["schemas"]["QuestionFacts"]>;
export type DecisionWay = ApprovalContext["ways"][number];

const STATE = ["inbox", "state"];
/** The least time between two readings of the lists, in milliseconds. */
const CALM = 500;

const listeners = new Set<(state: InboxState) => void>();

/** Hear of every change of the inbox. */
export function useInboxChanges(listener: (state: InboxState) => void): void {
  useEffect(() => {
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, [listener]);
}

/** How much waits now. */
export async function readState(): Promise<InboxState> {
  return dataOf(await api.GET("/v1/approvals/events")) as InboxState;
}

/** How many approval requests and questions wait that the principal can see. */
export function useWaitingCount(): number {
  const state = useQuery({
    queryKey: STATE,
    queryFn: readState,
    staleTime: Infinity,
  });
  return (state.data?.waiting ?? 0) + (state.data?.questions ?? 0);
}

/**
 * Follow the inbox as long as the page is open: whatever was read of approvals and questions is read
 * again when it changes, and after a lost connection.
 */
export function useInboxFeed(): void {
  const client = useQueryClient();
  useEffect(() => {
    const end = new AbortController();
    const readAgain = calmed(() => invalidate(client), end.signal);
    follow({
      url: "/v1/approvals/events",
      after: null,
      onState: setConnection,
      isLast: () => false,
      signal: end.signal,
      onEvent: (event) => {
        const state = JSON.parse(event.data) as InboxState;
        client.setQueryData(STATE, state);
        readAgain();
        for (const listener of listeners) listener(state);
      },
    }).catch(() => setConnection("ended"));
    return () => end.abort();
  }, [client]);
}

function invalidate(client: QueryClient): void {
  void client.invalidateQueries({ queryKey: ["approvals"] });
  void client.invalidateQueries({ queryKey: ["questions"] });
}

/** The same function, called at once and then at most every `CALM` milliseconds. */
function calmed(run: () => void, signal: AbortSignal): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsked = false;
  const start = () => {
    run();
    timer = setTimeout(() => {
      timer = undefined;
      if (isAsked && !signal.aborted) {
        isAsked = false;
        start();
      }
    }, CALM);
  };
  return () => {
    if (timer === undefined) start();
    else isAsked = true;
  };
}
