import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { api, dataOf } from "@/api/client";
import {
  useInboxChanges,
  type Approval,
  type ApprovalContext,
  type DecisionWay,
  type InboxState,
} from "@/api/inbox";
import { useMe } from "@/api/principal";
import { closedText, decide, newKey, type Outcome } from "@/pages/inbox/decision";
import { forgetDrafts } from "@/pages/inbox/draft";
import { meaningOf } from "@/pages/inbox/keys";
import { useToast } from "@/parts/Toast";

export interface OpenDialog {
  approval: Approval;
  ways: readonly DecisionWay[];
  way: DecisionWay;
}

/** What a person is doing in the inbox: the active card, the selected ones, and an open dialog. */
export interface Desk {
  activeId: string | null;
  setActive: (approvalId: string) => void;
  selected: ReadonlySet<string>;
  toggle: (approvalId: string) => void;
  clear: () => void;
  chosen: readonly Approval[];
  busyId: string | null;
  notes: ReadonlyMap<string, Outcome>;
  dialog: OpenDialog | null;
  closeDialog: () => void;
  settleDialog: (outcome: Outcome) => void;
  choose: (approval: Approval, ways: readonly DecisionWay[], way: DecisionWay) => void;
}

export function useInboxDesk(approvals: readonly Approval[], linkedId: string | null): Desk {
  const client = useQueryClient();
  const toast = useToast();
  const [active, setActive] = useState<string | null>(linkedId);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [busyId, setBusyId] = useState<string | null>(null);
  const [notes, setNotes] = useState<ReadonlyMap<string, Outcome>>(new Map());
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const keys = useRef(new Map<string, string>());
  // A card that is gone is not followed by another one: the next key would decide something unseen.
  const activeId = approvals.some((each) => each.approval_id === active) ? active : null;
  const chosen = useMemo(
    () => approvals.filter((each) => selected.has(each.approval_id)),
    [approvals, selected],
  );
  const settle = useCallback(
    (approval: Approval, outcome: Outcome) => {
      setNotes((known) => new Map(known).set(approval.approval_id, outcome));
      if (outcome.kind === "done" || outcome.kind === "voted") {
        toast({ title: outcome.text, tone: "good" });
        forgetDrafts(approval.approval_id);
        setDialog(null);
      }
      if (outcome.kind === "over") toast({ title: outcome.text, tone: "bad" });
      void client.invalidateQueries({ queryKey: ["approvals"] });
    },
    [client, toast],
  );
  const approve = useCallback(
    async (approval: Approval) => {
      // Two requests for the same call have one digest; each of them is a decision of its own.
      const written = `${approval.approval_id} ${approval.digest}`;
      const key = keys.current.get(written) ?? newKey();
      keys.current.set(written, key);
      setBusyId(approval.approval_id);
      const outcome = await decide(approval, { decision: "approve" }, key).finally(() =>
        setBusyId(null),
      );
      settle(approval, outcome);
    },
    [settle],
  );
  const choose = useCallback(
    (approval: Approval, ways: readonly DecisionWay[], way: DecisionWay) => {
      if (way === "approve") void approve(approval);
      else setDialog({ approval, ways, way });
    },
    [approve],
  );
  const toggle = useCallback((approvalId: string) => {
    setSelected((known) => {
      const next = new Set(known);
      if (!next.delete(approvalId)) next.add(approvalId);
      return next;
    });
  }, []);
  useGoneRequests(activeId, dialog?.approval.approval_id ?? null);
  useKeys({ approvals, activeId, isBusy: busyId !== null, setActive, toggle, choose });
  return {
    activeId,
    setActive,
    selected,
    toggle,
    clear: useCallback(() => setSelected(new Set()), []),
    chosen,
    busyId,
    notes,
    dialog,
    closeDialog: useCallback(() => setDialog(null), []),
    settleDialog: useCallback(
      (outcome: Outcome) => {
        if (dialog !== null) settle(dialog.approval, outcome);
      },
      [dialog, settle],
    ),
    choose,
  };
}

/** Say what became of the request that somebody looks at, when it closes under their eyes. */
function useGoneRequests(activeId: string | null, dialogId: string | null): void {
  const toast = useToast();
  const me = useMe();
  const onChange = useCallback(
    (state: InboxState) => {
      const watched = dialogId ?? activeId;
      if (watched === null || !state.removed.includes(watched)) return;
      const params = { path: { approval_id: watched } };
      void api
        .GET("/v1/approvals/{approval_id}", { params })
        .then((answer) => {
          const now = dataOf(answer) as Approval;
          // What the person did themselves was said already.
          if (now.decided_by !== me.principal) toast({ title: closedText(now), tone: "bad" });
        })
        .catch(() => undefined);
    },
    [activeId, dialogId, me.principal, toast],
  );
  useInboxChanges(onChange);
}

interface KeyTargets extends Pick<Desk, "activeId" | "setActive" | "toggle" | "choose"> {
  approvals: readonly Approval[];
  isBusy: boolean;
}

function useKeys(targets: KeyTargets): void {
  const client = useQueryClient();
  const latest = useRef(targets);
  useEffect(() => {
    latest.current = targets;
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { approvals, activeId, isBusy, setActive, toggle, choose } = latest.current;
      const meaning = meaningOf(event);
      if (meaning === null || meaning === "help") return;
      const at = approvals.findIndex((each) => each.approval_id === activeId);
      if (meaning === "next" || meaning === "previous") {
        const next = approvals[at < 0 ? 0 : at + (meaning === "next" ? 1 : -1)];
        if (next !== undefined) {
          setActive(next.approval_id);
          focusCard(next.approval_id);
        }
        return;
      }
      const approval = approvals[at];
      if (approval === undefined || isBusy) return;
      const read = ["approvals", "context", approval.approval_id];
      const ways = client.getQueryData<ApprovalContext>(read)?.ways ?? [];
      event.preventDefault();
      // Nobody decides what they have scrolled away from: the first key brings it back.
      if (!isInSight(approval.approval_id)) {
        // The list scrolls to a card that becomes the chosen one.
        setActive("");
        requestAnimationFrame(() => {
          setActive(approval.approval_id);
          focusCard(approval.approval_id);
        });
      } else if (meaning === "select") {
        if (ways.length > 0) toggle(approval.approval_id);
      } else if (ways.includes(meaning)) {
        choose(approval, ways, meaning);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [client]);
}

function cardOf(approvalId: string): HTMLElement | null {
  return document.querySelector<HTMLElement>(`[data-approval="${CSS.escape(approvalId)}"]`);
}

function isInSight(approvalId: string): boolean {
  const place = cardOf(approvalId)?.getBoundingClientRect();
  return place !== undefined && place.bottom > 0 && place.top < window.innerHeight;
}

const FRAMES = 20;

/** Focus a card once it is in the page: the list may have to scroll to it first. */
function focusCard(approvalId: string, frames = FRAMES): void {
  requestAnimationFrame(() => {
    const card = cardOf(approvalId);
    if (card !== null) {
      card.focus({ preventScroll: true });
      card.scrollIntoView({ block: "nearest" });
    } else if (frames > 0) {
      focusCard(approvalId, frames - 1);
    }
  });
}
