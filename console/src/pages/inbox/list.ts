import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { Approval } from "@/api/inbox";

export interface InboxFilters {
  tool?: string;
  principal?: string;
  session?: string;
}

interface ApprovalPage {
  approvals: Approval[];
  total: number;
  cursor: string | null;
}

const PAGE = 100;

/** What waits, by deadline, page by page. */
export function useInbox(filters: InboxFilters) {
  return useInfiniteQuery({
    queryKey: ["approvals", "inbox", filters],
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }): Promise<ApprovalPage> => {
      const query = {
        order: "deadline" as const,
        limit: PAGE,
        ...(pageParam === null ? {} : { cursor: pageParam }),
        ...(filters.tool === undefined ? {} : { tool: filters.tool }),
        ...(filters.principal === undefined ? {} : { principal: filters.principal }),
        ...(filters.session === undefined ? {} : { session_id: filters.session }),
      };
      return dataOf(await api.GET("/v1/approvals", { params: { query }, signal })) as ApprovalPage;
    },
    getNextPageParam: (last) => last.cursor,
    placeholderData: keepPreviousData,
  });
}

/** The requests of all pages that were read. A request that moved between two is there once. */
export function requestsOf(pages: readonly ApprovalPage[] | undefined): Approval[] {
  const byId = new Map<string, Approval>();
  for (const page of pages ?? []) {
    for (const approval of page.approvals) byId.set(approval.approval_id, approval);
  }
  return [...byId.values()];
}
