"""The people of a chaos run: they read the inbox at any replica, and decide at any other."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.chaos.replicas import Replicas
from tests.chaos.world import World
from toolcrib.errors import Refused
from toolcrib.runtime.approval_messages import ApprovalFacts

IN_DOUBT: Final = "in_doubt"
"""The rule of requests about calls whose end nobody knows."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """A call in doubt that a person let run again, because nothing of it was to be seen."""

    session_id: str
    call_id: str
    tool: str
    approval_id: str
    at: float
    could_still_run: bool
    """Whether the request said that the other process is not known to be dead."""

    @property
    def call(self) -> tuple[str, str]:
        return self.session_id, self.call_id


class People:
    """Approve transfers. About a call in doubt they look at the world: what has happened is denied,
    and what has not may run again, as soon as that may be approved.
    """

    def __init__(self, replicas: Replicas, world: World, *, pause: float = 0.2) -> None:
        self._replicas = replicas
        self._world = world
        self._pause = pause
        self._decided: set[str] = set()
        self.reruns: dict[str, Rerun] = {}
        """By the id of the request."""
        self.decisions: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.early = 0
        """Approvals that were held back because the other process might still run the call."""

    async def work(self) -> None:
        """Decide until this is cancelled."""
        while True:
            try:
                page = await self._replicas.client().list_approvals()
            except Refused as refused:
                self.refusals[f"approvals.list: {refused.kind}"] += 1
            else:
                waiting = [each for each in page.approvals if each.approval_id not in self._decided]
                await asyncio.gather(*(self._decide(each) for each in waiting[:16]))
            await asyncio.sleep(self._pause)

    async def _decide(self, request: ApprovalFacts) -> None:
        is_doubt = request.rule == IN_DOUBT
        has_happened = is_doubt and await self._world.has_happened(
            request.session_id, request.call_id
        )
        if is_doubt and not has_happened and time.time() < (request.approvable_at or 0.0):
            self.early += 1
            return
        decision = "deny" if has_happened else "approve"
        if is_doubt and not has_happened:
            # Before it is sent: an answer that is lost may have been heard.
            self.reruns[request.approval_id] = Rerun(
                request.session_id,
                request.call_id,
                request.tool,
                request.approval_id,
                time.time(),
                request.approvable_at is not None,
            )
        try:
            await self._replicas.client().decide(
                request.approval_id,
                decision,
                digest=request.digest,
                reason="it had happened" if has_happened else None,
                idempotency_key=f"people/{request.approval_id}",
            )
        except Refused as refused:
            self.refusals[f"approvals.decide: {refused.kind}"] += 1
            if refused.kind in ("conflict", "not_found"):
                self._decided.add(request.approval_id)
        else:
            self._decided.add(request.approval_id)
            self.decisions[f"{decision} {'in doubt' if is_doubt else request.tool}"] += 1
