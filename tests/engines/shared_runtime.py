"""Runtimes on one real PostgreSQL, driven by an engine: a front that accepts, and workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import Json, host_tool, model, registry_of
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.testing import calls, says

ADD = {"a": 2, "b": 3}


@contextmanager
def replicas(url: str, count: int) -> Generator[list[PostgresStore]]:
    """Stores on one database."""
    key = new_key()
    stores = [PostgresStore(url, key=key) for _ in range(count)]
    try:
        yield stores
    finally:
        for store in stores:
            store.close()


def front() -> Json:
    """The configuration of a runtime that runs no turns."""
    registry = registry_of(host_tool("add", requires_approval=True))
    return {"host_tool_registry": registry, "adapter": model(), "takes_turns": False}


def worker() -> Json:
    """The configuration of a runtime whose model adds, once somebody allows it."""
    registry = registry_of(host_tool("add", requires_approval=True))
    adapter = model([calls("add", ADD)], [says("five")])
    return {"host_tool_registry": registry, "adapter": adapter}


async def approve(runtime: Runtime) -> None:
    """Approve the one request there is, once it is there."""
    end = time.monotonic() + PATIENCE
    while not (filed := (await runtime.ask("approvals.list")).approvals):
        assert time.monotonic() < end
        await asyncio.to_thread(time.sleep, 0.02)
    (approval,) = filed
    params = {"approval_id": approval.approval_id, "digest": approval.digest}
    await runtime.ask("approvals.decide", {**params, "decision": "approve"})


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something in the store."""
    end = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.to_thread(time.sleep, 0.02)
