import { infiniteQueryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, dataOf } from "@/api/client";
import type { Role } from "@/api/principal";
import type { components } from "@/api/schema";

export type Person = components["schemas"]["Person"];
export type TokenFacts = components["schemas"]["TokenFacts"];
export type SignInFacts = components["schemas"]["SignInFacts"];
export type NewToken = components["schemas"]["NewTokenFacts"];

/** What the form of a new token holds. */
export interface TokenDraft {
  name: string;
  roles: Role[];
  groups: string;
  lifetime: Lifetime;
  mayApproveOwn: boolean;
}

export const LIFETIMES = ["day", "month", "quarter", "year", "never"] as const;
export type Lifetime = (typeof LIFETIMES)[number];

const DAY = 86_400;
const SECONDS: Record<Lifetime, number | null> = {
  day: DAY,
  month: 30 * DAY,
  quarter: 90 * DAY,
  year: 365 * DAY,
  never: null,
};

/** The parameters of `tokens.create` for a form. */
export function tokenParameters(draft: TokenDraft) {
  return {
    name: draft.name.trim(),
    roles: draft.roles,
    groups: groupsOf(draft.groups),
    lifetime_seconds: SECONDS[draft.lifetime],
    may_approve_own: draft.mayApproveOwn,
  };
}

/** The groups of a text with commas or spaces between them, each once. */
export function groupsOf(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((group) => group !== ""))];
}

/** Whether a token can no longer be used. */
export function isExpired(token: TokenFacts, now: number): boolean {
  return token.expires_at !== null && token.expires_at <= now;
}

export const peopleQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: ["people", search],
    queryFn: async ({ pageParam }) =>
      dataOf(
        await api.GET("/v1/people", {
          params: {
            query: {
              limit: 50,
              ...(search === "" ? {} : { search }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });

/** An action after which the people are read again. */
export function usePeopleAction<Input, Output>(action: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: action,
    onSuccess: () => queries.invalidateQueries({ queryKey: ["people"] }),
  });
}

export async function createToken(draft: TokenDraft): Promise<NewToken> {
  return dataOf(await api.POST("/v1/tokens", { body: tokenParameters(draft) }));
}

export async function rotateToken(input: {
  id: string;
  keepOldSeconds: number;
}): Promise<NewToken> {
  return dataOf(
    await api.POST("/v1/tokens/{token_id}/rotate", {
      params: { path: { token_id: input.id } },
      body: { keep_old_seconds: input.keepOldSeconds },
    }),
  );
}

export async function revokeToken(id: string): Promise<TokenFacts> {
  return dataOf(await api.DELETE("/v1/tokens/{token_id}", { params: { path: { token_id: id } } }));
}

export async function revokeSignIn(id: string): Promise<SignInFacts> {
  return dataOf(
    await api.DELETE("/v1/sign-ins/{sign_in_id}", { params: { path: { sign_in_id: id } } }),
  );
}

/** A browser and its system, from what it calls itself; the whole where nothing is known. */
export function browserName(agent: string): string {
  const browser = [
    ["Edg/", "Edge"],
    ["OPR/", "Opera"],
    ["Firefox/", "Firefox"],
    ["Chrome/", "Chrome"],
    ["Safari/", "Safari"],
  ].find(([mark]) => mark !== undefined && agent.includes(mark))?.[1];
  const system = [
    ["Android", "Android"],
    ["iPhone", "iPhone"],
    ["iPad", "iPad"],
    ["Windows", "Windows"],
    ["Mac OS X", "macOS"],
    ["Linux", "Linux"],
  ].find(([mark]) => mark !== undefined && agent.includes(mark))?.[1];
  if (browser === undefined) return agent;
  return system === undefined ? browser : `${browser}, ${system}`;
}
