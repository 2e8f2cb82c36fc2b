"""A runtime: sessions, tools and one service, started and closed explicitly."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from toolcrib.errors import LeaseLost, Refused, SessionNotFound, UsageError
from toolcrib.host_tools.registry import HostToolRegistry
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.idempotency import Once
from toolcrib.runtime.live_session import STOP_SECONDS
from toolcrib.runtime.operations import OPERATIONS, Operation
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.service import Service
from toolcrib.runtime.sessions import LiveSessions
from toolcrib.store.memory import MemoryStore

logger = logging.getLogger(__name__)


class Runtime:
    """Serves the tools of one registry to many sessions. Use it as an async context manager, or
    `start` and `close` it; several may live in one process.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.registry = config.host_tool_registry or HostToolRegistry()
        self.store = config.store or MemoryStore()
        self._owns_store = config.store is None
        self._sessions: LiveSessions | None = None
        self._service: Service | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self._running: set[asyncio.Future[Any]] = set()
        """What is being done."""

    async def __aenter__(self) -> Runtime:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin to answer."""
        if self._service is not None:
            raise UsageError("the runtime was started already; create another one")
        self._loop = asyncio.get_running_loop()
        self._sessions = LiveSessions(self.config, self.store, self.registry)
        self._service = Service(
            self.config, self.store, self._sessions, Once(time.monotonic), OPERATIONS
        )

    async def close(self) -> None:
        """Take nothing new, let what runs end for a while, cancel the rest, and leave the ledgers
        whole. Closing goes on when whoever waits for it leaves.
        """
        if self._sessions is None:
            return
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(self._sessions))
        await asyncio.shield(self._closing)

    async def _close(self, sessions: LiveSessions) -> None:
        for held in sessions:
            held.stop_waiting()
        if self._running:
            await asyncio.wait(self._running, timeout=self.config.drain_seconds)
        await sessions.close_all()
        if self._running:
            # What was cancelled has yet to say so to whoever asked for it.
            await asyncio.wait(self._running, timeout=STOP_SECONDS)
        if self._owns_store:
            self.store.close()

    @property
    def service(self) -> Service:
        """The operations. Raises `Refused` unless the runtime is started."""
        if self._service is None:
            raise Refused("unavailable", "the runtime is not started")
        if self._closing is not None:
            raise Refused("closing", "the runtime is closing; nothing new is taken")
        return self._service

    async def ask(self, name: str, params: object = None, who: Principal = OWNER) -> Any:
        """Do one operation. Raises `Refused`; what goes wrong inside is told without details.

        Who stops waiting for it does not stop it: a call or a prompt is ended by asking for that.
        """
        operation, service = _operation(name), self.service
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise UsageError("a runtime is asked in the event loop that it was started in")
        # The task tells whoever waits by itself: to wait for the task takes as long as the call.
        answer: asyncio.Future[Any] = loop.create_future()
        task = loop.create_task(_tell(answer, operation, service, params, who))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await answer

    async def ask_here(self, name: str, params: object = None, who: Principal = OWNER) -> Any:
        """`ask`, in the task that runs and without one of its own: for transports that make a task
        for every request and cancel none.
        """
        task = asyncio.current_task(self._loop)
        assert task is not None, "an operation runs in a task of the loop that was started in"
        operation, service = _operation(name), self.service
        over: asyncio.Future[None] = task.get_loop().create_future()
        self._running.add(over)
        try:
            return await _done(operation, service, params, who)
        except asyncio.CancelledError:
            # Only closing the session cancels a call, and that is no reason to end the task.
            while task.uncancel() > 0:
                pass
            raise _closed(name) from None
        finally:
            self._running.discard(over)
            over.set_result(None)


def _operation(name: str) -> Operation:
    operation = OPERATIONS.get(name)
    if operation is None:
        raise Refused("not_found", f"there is no operation {name[:80]!r}")
    return operation


def _closed(name: str) -> Refused:
    return Refused("closing", f"the session was closed before {name} was done")


async def _tell(
    answer: asyncio.Future[Any],
    operation: Operation,
    service: Service,
    params: object,
    who: Principal,
) -> None:
    """Do an operation and settle its answer, unless nobody waits for it any more."""
    try:
        result = await _done(operation, service, params, who)
    except Refused as refused:
        if not answer.done():
            answer.set_exception(refused)
    except BaseException as error:
        if not answer.done():
            is_closed = isinstance(error, asyncio.CancelledError)
            answer.set_exception(_closed(operation.name) if is_closed else error)
        raise
    else:
        if not answer.done():
            answer.set_result(result)


async def _done(operation: Operation, service: Service, params: object, who: Principal) -> Any:
    try:
        return await operation.ask(service, params, who)
    except Refused:
        raise
    except SessionNotFound:
        raise Refused("not_found", "there is no such session") from None
    except LeaseLost:
        raise Refused("conflict", "another process has taken over the session") from None
    except Exception:
        logger.exception("%s failed", operation.name)
        raise Refused(
            "internal", f"{operation.name} failed; what went wrong is in the log of the runtime"
        ) from None


def create_runtime(config: RuntimeConfig | None = None) -> Runtime:
    """A runtime that has not started: nothing is opened, listened on or written yet."""
    return Runtime(config or RuntimeConfig())
