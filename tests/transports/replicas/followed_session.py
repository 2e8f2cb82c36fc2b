"""Replicas of one database in one process, and a client that follows a session at one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import STREAM, Sent, Served, events_of, served
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key

CALL = "/v1/sessions/s/tools/{}/call"


class Replicas:
    """Starts replicas of one database."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self.key = new_key()
        self._stack = stack

    async def start(
        self, *, uses_hints: bool = True, lease_seconds: float = 10.0, **config: Any
    ) -> Served:
        store = PostgresStore(
            self.url, key=self.key, uses_hints=uses_hints, lease_seconds=lease_seconds
        )
        self._stack.callback(store.close)
        return await self._stack.enter_async_context(served(store=store, **config))


@asynccontextmanager
async def replicas(url: str) -> AsyncGenerator[Replicas]:
    async with AsyncExitStack() as stack:
        yield Replicas(url, stack)


class Follower:
    """What a client of server-sent events has got so far."""

    def __init__(self, replica: Served, session_id: str = "s", after: int = 0) -> None:
        self.sent: list[Sent] = []
        self.is_open = False
        self._replica = replica
        self._path = f"/v1/sessions/{session_id}/events?after={after}"
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(self._read())

    @property
    def kept(self) -> list[int]:
        """The numbers of the recorded events, in the order in which they came."""
        return [int(each.id) for each in self.sent if each.id is not None]

    def texts(self, kind: str) -> list[str]:
        return [each.data["data"]["text"] for each in self.sent if each.event == kind]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what has come meets a condition."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                assert not self._task.done(), f"the stream has ended: {self.sent[-3:]}"
                self._news.clear()
                await self._news.wait()

    async def until_seq(self, seq: int) -> None:
        await self.until(lambda: self.is_open and max(self.kept, default=0) >= seq)

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._task

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _read(self) -> None:
        client = self._replica.client
        async with client.stream("GET", self._path, headers=STREAM) as response:
            assert response.status_code == 200, await response.aread()
            async for sent in events_of(response):
                if sent.event:
                    self.sent.append(sent)
                self.is_open = True
                self._news.set()


async def call(replica: Served, text: str, tool: str = "echo") -> dict[str, Any]:
    answer = await replica.client.post(CALL.format(tool), json={"arguments": {"text": text}})
    assert answer.is_success, answer.text
    return answer.json()


async def last_seq(replica: Served, session_id: str = "s") -> int:
    return (await replica.client.get(f"/v1/sessions/{session_id}")).json()["last_seq"]


def is_whole(numbers: list[int]) -> bool:
    """Whether every number from 1 on is there once, in order."""
    return numbers == list(range(1, len(numbers) + 1))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that nothing tells of."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def taken_over(replica: Served) -> None:
    """Open the session at a replica, as soon as its holder counts as gone."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await replica.client.post("/v1/sessions/s/resume", json={})
            if answer.is_success:
                return
            await asyncio.sleep(0.1)
