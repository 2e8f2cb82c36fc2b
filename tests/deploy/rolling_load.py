"""Clients that keep replicas busy during an upgrade: they call, prompt and follow."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, Self, TypeVar

from tests.helpers.patience import PATIENCE
from toolcrib.client import AsyncClient
from toolcrib.client.address import server_location
from toolcrib.client.event_source import StreamedEnvelopes
from toolcrib.client.http_requests import HttpRequests
from toolcrib.errors import Refused

T = TypeVar("T")
Act = Callable[[AsyncClient, str, int], Awaitable[None]]
"""Has a number written down once, in a session."""

_PASSING: Final = ("unavailable", "closing", "conflict", "busy")
"""Refusals that say "again, in a moment"."""
_CALLS: Final = 4
"""Calls or prompts of one session. New sessions let a replica that has just started take part."""


class RollingLoad:
    """Works through the balancer until `stop`. What it was told is kept for the examination."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._is_over = False
        self._numbers = count()
        self._names = count()
        self.sessions: list[str] = []
        self.sent: set[int] = set()
        """Every number that a call or a prompt was to write down."""
        self.refusals: Counter[str] = Counter()
        self.faults: list[str] = []
        """What no repetition has mended, and every event that was missed or came twice."""
        self.prompts = 0

    def stop(self) -> None:
        """Begin no more sessions; what was begun is brought to its end."""
        self._is_over = True

    async def work(self, *, callers: int, prompters: int) -> None:
        """Work until `stop`, and until all that was begun has ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(self._sessions(self._call))
            for _ in range(prompters):
                group.create_task(self._sessions(self._prompt))

    async def _sessions(self, act: Act) -> None:
        async with AsyncClient(self._url, self._token) as client:
            while not self._is_over:
                name = f"s{next(self._names)}"
                await self._answered(
                    lambda name=name: client.create_session(name, idempotency_key=f"open {name}")
                )
                self.sessions.append(name)
                await self._session(client, name, act)

    async def _session(self, client: AsyncClient, name: str, act: Act) -> None:
        async with Follower(self._url, self._token, name) as follower:
            for _ in range(_CALLS):
                number = next(self._numbers)
                self.sent.add(number)
                await act(client, name, number)
            facts = await self._answered(lambda: client.get_session(name))
            await follower.until(facts.last_seq)
        self.faults += follower.faults

    async def _call(self, client: AsyncClient, name: str, number: int) -> None:
        result = await self._answered(
            lambda: client.call_tool(
                name, "note", {"number": number}, idempotency_key=f"call {number}"
            )
        )
        if result.status != "completed":
            self.faults.append(f"call {number} of {name}: {result}")

    async def _prompt(self, client: AsyncClient, name: str, number: int) -> None:
        result = await self._answered(
            lambda: client.send_prompt(name, f"note {number}", idempotency_key=f"prompt {number}")
        )
        self.prompts += 1
        if (result.status, result.text) != ("completed", f"noted {number}"):
            self.faults.append(f"prompt {number} of {name}: {result}")

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, asked for again under the same key where a refusal says so."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return await ask()
            except Refused as refused:
                self.refusals[f"{refused.kind}: {refused.message}"] += 1
                if refused.kind not in _PASSING or time.monotonic() > end:
                    raise
            await asyncio.sleep(0.1)


class Follower:
    """Follows a session from its beginning, over the end of any replica."""

    def __init__(self, url: str, token: str, name: str) -> None:
        self.faults: list[str] = []
        self._name = name
        self._last = 0
        self._news = asyncio.Event()
        self._requests = HttpRequests(server_location(url, token), timeout=PATIENCE)
        self._source = StreamedEnvelopes(
            self._requests, name, 0, resume=_is_not_there, reconnect_seconds=PATIENCE
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._source.aclose()
        await self._requests.aclose()

    async def until(self, seq: int) -> None:
        """Wait until the events up to a record have come."""
        async with asyncio.timeout(PATIENCE):
            while self._last < seq:
                if self._task.done():
                    self._task.result()
                self._news.clear()
                await self._news.wait()

    async def _follow(self) -> None:
        try:
            await self._source.connect()
            while True:
                envelope = await self._source.__anext__()
                if envelope.is_kept:
                    self._take(envelope.seq)
        finally:
            self._news.set()

    def _take(self, seq: int) -> None:
        if seq != self._last + 1:
            self.faults.append(f"{self._name}: event {seq} came after {self._last}")
        self._last = seq
        self._news.set()


async def _is_not_there(session_id: str) -> None:
    raise Refused("not_found", f"a replica did not find the session {session_id}")
