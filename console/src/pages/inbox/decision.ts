import { api, ApiError, dataOf } from "@/api/client";
import type { Approval } from "@/api/inbox";
import type { components } from "@/api/schema";
import { messages } from "@/messages";
import type { Fault } from "@/parts/form/validator";

export type GrantTerms = components["schemas"]["GrantTerms"];

/** What a person decided, as the server takes it. */
export interface Decision {
  decision: "approve" | "deny" | "answer";
  arguments?: Record<string, unknown>;
  reason?: string;
  value?: unknown;
  grant?: GrantTerms;
}

/** What became of a decision. Only `done` and `voted` changed anything. */
export type Outcome =
  | { kind: "done"; text: string; approval: Approval }
  | { kind: "voted"; text: string; approval: Approval }
  | { kind: "over"; text: string; approval: Approval | null }
  | { kind: "faults"; text: string; faults: Fault[] }
  | { kind: "failed"; text: string; isUnknown: boolean };

/**
 * Decide a request. It is bound to the digest that the person saw. With the same `key`, a decision
 * whose answer was lost can be sent again and counts once.
 */
export async function decide(
  approval: Approval,
  decision: Decision,
  key: string,
): Promise<Outcome> {
  try {
    const answer = await api.POST("/v1/approvals/{approval_id}/decide", {
      params: { path: { approval_id: approval.approval_id }, header: { "Idempotency-Key": key } },
      body: { ...decision, digest: approval.digest } as never,
    });
    return settled(decision, dataOf(answer) as Approval);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return await failed(approval, error);
  }
}

function settled(decision: Decision, approval: Approval): Outcome {
  if (approval.state === "pending") {
    const needed = Math.max(...approval.approvers.map((each) => each.count), 1);
    const text = messages.decision.voted(approval.tool, approval.votes.length, needed);
    return { kind: "voted", text, approval };
  }
  const said = messages.decision.done[decision.grant === undefined ? decision.decision : "grant"];
  return { kind: "done", text: said(approval.tool), approval };
}

async function failed(approval: Approval, error: ApiError): Promise<Outcome> {
  if (error.isOffline || error.status >= 500) {
    return { kind: "failed", text: messages.decision.unknown, isUnknown: true };
  }
  const faults = faultsIn(error.facts);
  if (faults.length > 0) return { kind: "faults", text: messages.decision.faults, faults };
  if (error.status === 404) {
    return { kind: "over", text: messages.decision.gone(approval.tool), approval: null };
  }
  if (error.status === 409) {
    const now = await current(approval.approval_id);
    if (now !== null && now.state !== "pending") {
      return { kind: "over", text: closedText(now), approval: now };
    }
  }
  return { kind: "failed", text: error.message, isUnknown: false };
}

async function current(approvalId: string): Promise<Approval | null> {
  try {
    const params = { path: { approval_id: approvalId } };
    return dataOf(await api.GET("/v1/approvals/{approval_id}", { params })) as Approval;
  } catch {
    return null;
  }
}

/** Why a request is closed, in words: somebody was faster, it expired, or the tool changed. */
export function closedText(approval: Approval): string {
  return closedIn(approval, messages.decision.faster);
}

/** What became of a request, in words for somebody who has not tried to decide it. */
export function decidedText(approval: Approval): string {
  return closedIn(approval, messages.decision.decided);
}

function closedIn(approval: Approval, words: typeof messages.decision.decided): string {
  const by = approval.decided_by ?? messages.parts.unknown;
  switch (approval.decision) {
    case "approve":
    case "deny":
    case "answer":
      return words[approval.decision](approval.tool, by);
    case "expire":
      return messages.decision.expired(approval.tool);
    default:
      return messages.decision.superseded(approval.tool);
  }
}

function faultsIn(facts: unknown): Fault[] {
  if (typeof facts !== "object" || facts === null || !("faults" in facts)) return [];
  const { faults } = facts;
  return Array.isArray(faults) ? (faults as Fault[]) : [];
}

/** A key for one decision. */
export function newKey(): string {
  return crypto.randomUUID();
}
