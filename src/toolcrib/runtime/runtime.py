"""A runtime: sessions, tools and one service, started and closed explicitly."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from toolcrib.errors import Refused, ToolcribError
from toolcrib.host_tools.registry import HostToolRegistry
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.idempotency import Once
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.service import Service
from toolcrib.runtime.sessions import HeldSessions
from toolcrib.store.memory import MemoryStore


class Runtime:
    """Serves the tools of one registry to many sessions. Use it as an async context manager, or
    `start` and `close` it; several may live in one process.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.registry = config.host_tool_registry or HostToolRegistry()
        self.store = config.store or MemoryStore()
        self._owns_store = config.store is None
        self._sessions: HeldSessions | None = None
        self._service: Service | None = None
        self._is_closing = False
        self._running: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Runtime:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin to answer."""
        if self._service is not None:
            raise ToolcribError("the runtime is started already")
        self._sessions = HeldSessions(self.config, self.store, self.registry)
        self._service = Service(self.config, self.store, self._sessions, Once(time.monotonic))

    async def close(self) -> None:
        """Take nothing new, let what runs end for a while, cancel the rest, and leave the ledgers
        whole.
        """
        if self._sessions is None or self._is_closing:
            return
        self._is_closing = True
        if self._running:
            await asyncio.wait(self._running, timeout=self.config.drain_seconds)
        await self._sessions.close_all()
        if self._owns_store:
            self.store.close()

    @property
    def service(self) -> Service:
        """The operations. Raises `Refused` unless the runtime is started."""
        if self._service is None:
            raise Refused("unavailable", "the runtime is not started")
        if self._is_closing:
            raise Refused("closing", "the runtime is closing; nothing new is taken")
        return self._service

    async def ask(self, name: str, params: object = None, who: Principal = OWNER) -> Any:
        """Do one operation. Raises `Refused`; what goes wrong inside is told without details."""
        operation = OPERATIONS.get(name)
        if operation is None:
            raise Refused("not_found", f"there is no operation {name[:80]!r}")
        task = asyncio.ensure_future(operation.ask(self.service, params, who))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await task


def create_runtime(config: RuntimeConfig | None = None) -> Runtime:
    """A runtime that has not started: nothing is opened, listened on or written yet."""
    return Runtime(config or RuntimeConfig())
