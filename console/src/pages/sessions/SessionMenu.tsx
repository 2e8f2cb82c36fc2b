import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { EllipsisVertical } from "lucide-react";
import { useState } from "react";

import { api, dataOf } from "@/api/client";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Menu, type MenuItem } from "@/parts/Menu";
import { wordsOf } from "@/parts/State";
import { useToast } from "@/parts/Toast";
import type { Feed } from "@/parts/timeline/useSessionFeed";
import { ExportLink } from "@/pages/sessions/detail";
import type { SessionFacts } from "@/pages/sessions/SessionsPage";

type Act = "resume" | "close" | "fork" | "remove";

/** Do something with a session, say what came of it, and read it again. */
function useAct(facts: SessionFacts, feed: Feed) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const params = { path: { session_id: facts.session_id } };
  const run = async (act: Act): Promise<void> => {
    switch (act) {
      case "resume":
        await api.POST("/v1/sessions/{session_id}/resume", { params, body: {} });
        feed.retry();
        return toast({ title: messages.session.resumed, tone: "good" });
      case "close":
        await api.POST("/v1/sessions/{session_id}/close", { params, body: {} });
        return toast({ title: messages.session.closedNow });
      case "fork": {
        const answer = await api.POST("/v1/sessions/{session_id}/fork", { params, body: {} });
        const sessionId = dataOf(answer).session_id;
        toast({ title: messages.session.forked, tone: "good" });
        return navigate({ to: "/sessions/$sessionId", params: { sessionId } });
      }
      case "remove":
        if (facts.state === "open") {
          await api.POST("/v1/sessions/{session_id}/close", { params, body: {} });
        }
        await api.DELETE("/v1/sessions/{session_id}", { params });
        toast({ title: messages.session.removed });
        return navigate({ to: "/sessions" });
    }
  };
  return useMutation({
    mutationFn: run,
    onError: (error) =>
      toast({ title: messages.session.notDone, detail: wordsOf(error), tone: "bad" }),
    onSettled: () => {
      void cache.invalidateQueries({ queryKey: ["session", facts.session_id] });
      void cache.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
}

/** What one may do with a session: its owner may use it, and only an admin deletes it. */
export function SessionMenu({ facts, feed }: { facts: SessionFacts; feed: Feed }) {
  const me = useMe();
  const act = useAct(facts, feed);
  const [isRemoving, setIsRemoving] = useState(false);
  const isAdmin = can(me, "admin");
  const mayChange = can(me, "caller") && (isAdmin || facts.owner === me.principal);
  const isOpen = facts.state === "open";
  const items: MenuItem[] = [];
  if (mayChange && isOpen) {
    items.push({ label: messages.session.close, onSelect: () => act.mutate("close") });
  }
  if (mayChange) items.push({ label: messages.session.fork, onSelect: () => act.mutate("fork") });
  items.push({
    label: messages.session.copyId,
    onSelect: () => void navigator.clipboard.writeText(facts.session_id),
  });
  if (isAdmin) {
    const onSelect = () => setIsRemoving(true);
    items.push({ label: messages.session.remove, tone: "danger", onSelect });
  }
  return (
    <>
      {mayChange && !isOpen && (
        <Button disabled={act.isPending} onClick={() => act.mutate("resume")}>
          {messages.session.resume}
        </Button>
      )}
      {mayChange && (
        <Link to="/chat/$sessionId" params={{ sessionId: facts.session_id }}>
          {messages.session.toChat}
        </Link>
      )}
      <ExportLink sessionId={facts.session_id} />
      <Menu
        items={items}
        trigger={
          <Button aria-label={messages.session.actions}>
            <EllipsisVertical aria-hidden size={16} />
          </Button>
        }
      />
      <RemoveDialog
        open={isRemoving}
        onClose={() => setIsRemoving(false)}
        onRemove={() => {
          setIsRemoving(false);
          act.mutate("remove");
        }}
      />
    </>
  );
}

function RemoveDialog({
  open,
  onClose,
  onRemove,
}: {
  open: boolean;
  onClose: () => void;
  onRemove: () => void;
}) {
  const { removeTitle, removeText, remove } = messages.session;
  return (
    <Dialog open={open} onClose={onClose} title={removeTitle} description={removeText}>
      <DialogActions>
        <Button onClick={onClose}>{messages.parts.cancel}</Button>
        <Button look="danger" onClick={onRemove}>
          {remove}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
