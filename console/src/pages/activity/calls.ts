import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, dataOf, request } from "@/api/client";
import type { components } from "@/api/schema";
import { callFilters, type ActivitySearch, type Bucket } from "@/pages/activity/filters";

export type CallRow = components["schemas"]["CallRow"];

type SumKey = Bucket | "tool" | "principal" | "status";

const PAGE = 200;

/** What the calls of these filters took together, by one key. */
export function sumsQuery(search: ActivitySearch, by: SumKey) {
  const filters = callFilters(search);
  return queryOptions({
    queryKey: ["calls", "sums", by, filters],
    queryFn: async () =>
      dataOf(await api.GET("/v1/usage", { params: { query: { ...filters, by } } })).sums,
    staleTime: 15_000,
    placeholderData: (before) => before,
  });
}

/** The calls of these filters, page after page, the newest first. */
export function callsQuery(search: ActivitySearch) {
  const filters = { ...callFilters(search), kind: search.kind ?? "tool" };
  return infiniteQueryOptions({
    queryKey: ["calls", "list", filters],
    queryFn: async ({ pageParam }) => {
      const cursor = pageParam === null ? {} : { cursor: pageParam };
      const query = { ...filters, ...cursor, limit: PAGE };
      return dataOf(await api.GET("/v1/calls", { params: { query } }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.cursor ?? undefined,
    staleTime: 15_000,
  });
}

/** Every call of these filters as a file; the server sends it page after page. */
export async function callsFile(search: ActivitySearch): Promise<Blob> {
  const filters = { ...callFilters(search), kind: search.kind ?? "tool" };
  const query = new URLSearchParams(
    Object.entries(filters).map(([name, value]): [string, string] => [name, String(value)]),
  );
  const response = await request(`/v1/calls?${query}`, { headers: { Accept: "text/csv" } });
  return response.blob();
}
