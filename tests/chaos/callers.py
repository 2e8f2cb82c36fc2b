"""The clients of a chaos run: they send prompts and calls to any replica, and again to another one
when there is no answer, under the same key.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tests.chaos.replicas import Replicas
from tests.chaos.witness import Follower, Witness
from tests.chaos.world import KEYED, PLAIN
from toolcrib.client import AsyncClient
from toolcrib.errors import Refused
from toolcrib.runtime.messages import PromptResult

T = TypeVar("T")

_PASSING: Final = ("unavailable", "closing", "conflict", "busy", "too_many_requests", "internal")
"""Refusals after which a client tries again elsewhere. `internal` is counted too: it should not
be."""
GIVE_UP_SECONDS: Final = 240.0
"""A client that got no answer for so long has lost its turn."""


class Callers:
    """Keeps some sessions busy at once: most with prompts, some with calls of their own."""

    def __init__(
        self,
        replicas: Replicas,
        witness: Witness,
        *,
        at_once: int,
        rng: random.Random,
        direct: float = 0.2,
        followed: float = 0.3,
    ) -> None:
        self._replicas = replicas
        self._witness = witness
        self._at_once = at_once
        self._rng = rng
        self._direct = direct
        self._followed = followed
        self._is_over = False
        self._count = 0

    def stop(self) -> None:
        """Begin no more sessions; what was begun is brought to its end."""
        self._is_over = True

    async def work(self) -> None:
        """Work until `stop`, and until all that was begun has ended."""
        await asyncio.gather(*(self._sessions() for _ in range(self._at_once)))

    async def _sessions(self) -> None:
        while not self._is_over:
            self._count += 1
            session_id = f"{self._rng.choice((KEYED, PLAIN))}_{self._count}"
            try:
                await self._session(session_id)
            except Refused as refused:
                self._witness.faults.append(f"{session_id}: {refused.kind}: {refused.message}")

    async def _session(self, session_id: str) -> None:
        key = f"create/{session_id}"
        await self._until_answered(
            "session.create",
            lambda client: client.create_session(session_id, idempotency_key=key),
        )
        self._witness.sessions.add(session_id)
        follower = Follower(session_id, self._replicas, self._witness)
        is_followed = self._rng.random() < self._followed
        following = asyncio.create_task(follower.follow()) if is_followed else None
        try:
            if self._rng.random() < self._direct:
                await self._calls(session_id)
            else:
                for number in range(self._rng.choice((1, 1, 2))):
                    await self._prompt(session_id, number)
            last = await self._look(session_id)
            if following is not None:
                await self._caught_up(follower, last)
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _prompt(self, session_id: str, number: int) -> None:
        key = f"{session_id}/{number}"
        waits = self._rng.random() < 0.5
        self._witness.prompts[key] = "sent"
        result = await self._until_answered(
            "prompt.send",
            lambda client: client.send_prompt(session_id, "Go.", waits=waits, idempotency_key=key),
        )
        self._witness.prompts[key] = "accepted"
        ends_at = time.monotonic() + GIVE_UP_SECONDS
        while result.status == "waiting" and time.monotonic() < ends_at:
            await asyncio.sleep(0.1)
            if self._rng.random() < 0.2:
                await self._look(session_id)
            result = await self._resumed(session_id, result)
        self._witness.prompts[key] = result.status
        if result.status != "completed":
            self._witness.faults.append(f"{key}: the turn is {result.status}: {result.error}")

    async def _resumed(self, session_id: str, before: PromptResult) -> PromptResult:
        """How far a prompt is that was waiting, from the ledger: its answer, or still waiting."""
        events = await self._until_answered(
            "events.list",
            lambda client: client.list_events(session_id, newest_first=True, limit=5),
        )
        for event in events.events:
            if event["kind"] == "prompt.answered" and event["data"].get("turn") == before.turn:
                return PromptResult(session_id=session_id, turn=before.turn, status="completed")
            if event["kind"] == "prompt.stopped" and event["data"].get("turn") == before.turn:
                error = str(event["data"])
                return PromptResult(
                    session_id=session_id, turn=before.turn, status="failed", error=error
                )
        return before

    async def _calls(self, session_id: str) -> None:
        """Calls without a model, each under its key."""
        for number in range(self._rng.randint(1, 4)):
            name = self._rng.choice(("charge", "lookup", "transfer"))
            key = f"{session_id}/call/{number}"

            async def call(
                client: AsyncClient, name: str = name, number: int = number, key: str = key
            ) -> tuple[str, str]:
                result = await client.call_tool(
                    session_id, name, {"n": number}, idempotency_key=key
                )
                return result.call_id, result.status

            ends_at = time.monotonic() + GIVE_UP_SECONDS
            call_id, status = await self._until_answered("tools.call", call)
            while status == "waiting" and time.monotonic() < ends_at:
                await asyncio.sleep(0.2)
                call_id, status = await self._until_answered("tools.call", call)
            self._witness.results[session_id, call_id] = status
            if status == "waiting":
                self._witness.faults.append(f"{session_id}: call {call_id} waits for ever")

    async def _look(self, session_id: str) -> int:
        """See all records of a session, and remember them. Returns the number of the last."""
        seq = 0
        while True:
            page = await self._until_answered(
                "records.list", lambda client, seq=seq: client.list_records(session_id, after=seq)
            )
            for record in page.records:
                self._witness.saw_record(session_id, record.seq, record.hash)
            if not page.records:
                return seq
            seq = page.last_seq

    async def _caught_up(self, follower: Follower, last: int) -> None:
        ends_at = time.monotonic() + GIVE_UP_SECONDS
        while follower.seq < last:
            if time.monotonic() > ends_at:
                self._witness.faults.append(f"a follower stayed at {follower.seq} of {last}")
                return
            await asyncio.sleep(0.1)

    async def _until_answered(self, name: str, ask: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Ask any replica, and another one when it does not answer."""
        ends_at = time.monotonic() + GIVE_UP_SECONDS
        while True:
            replica = self._replicas.any()
            try:
                return await ask(self._replicas.clients[replica.name])
            except Refused as refused:
                self._witness.refusals[f"{name}: {refused.kind}"] += 1
                if refused.kind == "internal":
                    self._witness.notes.append(f"{name} at {replica.name}: {refused.message}")
                if refused.kind not in _PASSING or time.monotonic() > ends_at:
                    raise
            await asyncio.sleep(self._rng.uniform(0.05, 0.4))
