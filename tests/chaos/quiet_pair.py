"""Replicas that nothing befalls, for what is measured and for races over HTTP."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.replicas import Replicas, ReplicaSettings
from tests.chaos.world import World
from tests.helpers.patience import PATIENCE
from tests.servers.postgres import PostgresServer
from toolcrib.client import AsyncClient
from toolcrib.store.cipher import new_key


@dataclass(frozen=True, slots=True)
class QuietPair:
    """Two replicas, the first of which need not run yet, and their world."""

    replicas: Replicas
    world: World
    store: str

    @property
    def clients(self) -> tuple[AsyncClient, AsyncClient]:
        return self.replicas.clients["a"], self.replicas.clients["b"]


@asynccontextmanager
async def quiet_pair(
    server: PostgresServer,
    *,
    has_hints: bool = True,
    lease_seconds: float = 10.0,
    tool_seconds: float = 0.0,
    options: tuple[str, ...] = (),
    starts: bool = True,
) -> AsyncGenerator[QuietPair]:
    """Two replicas until the block ends."""
    store, world_url = [await asyncio.to_thread(server.database) for _ in range(2)]
    world = World(world_url)
    await world.make()
    with tempfile.TemporaryDirectory(prefix="toolcrib-pair-") as folder:
        settings = ReplicaSettings(
            folder=Path(folder),
            world=world_url,
            store_key=new_key(),
            lease_seconds=lease_seconds,
            tool_seconds=tool_seconds,
            has_hints=has_hints,
            options=options,
        )
        replicas = Replicas(settings, [store, store])
        try:
            if starts:
                await replicas.start()
            yield QuietPair(replicas, world, store)
        finally:
            await replicas.close()
            await world.close()


async def event_at(
    client: AsyncClient, session_id: str, kind: str, *, call_id: str | None = None, fence: int = 0
) -> dict[str, Any]:
    """The first event of a kind in a ledger, of one call, or of a writer after `fence`; it is
    waited for.
    """
    ends_at, seq = time.monotonic() + PATIENCE, 0
    while time.monotonic() < ends_at:
        page = await client.list_events(session_id, after=seq)
        for event in page.events:
            seq = event["seq"]
            data: dict[str, Any] = event["data"]
            is_of_call = call_id is None or data.get("call_id") == call_id
            if event["kind"] == kind and is_of_call and data.get("fence", fence + 1) > fence:
                return event
        await asyncio.sleep(0.02)
    raise AssertionError(f"{session_id} has no {kind}")
