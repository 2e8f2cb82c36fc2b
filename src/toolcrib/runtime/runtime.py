"""A runtime: sessions and tools behind one service, started and closed explicitly."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.calls.tool_table import check_rules
from toolcrib.errors import LeaseLost, Refused, SessionNotFound, UsageError
from toolcrib.host_tools.registry import HostToolRegistry, host_tool_registry
from toolcrib.runtime.catalog import ToolCatalog
from toolcrib.runtime.chat import ChatOperations
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.idempotency import IdempotencyKeys
from toolcrib.runtime.live_session import STOP_SECONDS, wait_at_most
from toolcrib.runtime.name_check import NameCheck
from toolcrib.runtime.operations import OPERATIONS, Operation
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.quotas import Quotas
from toolcrib.runtime.served_tools import ServedTools, served_tools
from toolcrib.runtime.service import Service
from toolcrib.runtime.session_events import ReaderSource, SessionEvents
from toolcrib.runtime.sessions import LiveSessions
from toolcrib.session.bus import EventBus
from toolcrib.store.memory import MemoryStore
from toolcrib.tools.prepared_tool import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.notifications.watch import NotificationWatch
    from toolcrib.session.session import Session
    from toolcrib.store.store import Store

logger = logging.getLogger(__name__)

_CHANGEABLE: Final = (
    "toolsets",
    "hosted_tools",
    "mcp_servers",
    "instructions",
    "policy",
    "approver",
    "responder",
    "approve_own_calls",
    "hooks",
    "expected_tools",
    "limits",
    "egress",
    "callers_choose",
)
"""What `reconfigure` takes from another configuration."""


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """How many sessions are open, and why each mounted server cannot be called (None: it can)."""

    open_sessions: int = 0
    server_faults: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])


class Runtime(ChatOperations):
    """Serves the tools of one registry to many sessions. Use it as an async context manager, or
    `start` and `close` it. A process may have several.

    The operations are those of the process itself; `as_principal` has them for somebody else.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.registry = _registry(config)
        self.store = config.store or MemoryStore()
        self.quotas = Quotas(config.principal_limits, time.monotonic)
        """What each principal has taken of the runtime."""
        self.bus = EventBus()
        """Hears the events of every session that is opened while somebody listens here."""
        self.notifications = _notifications(config, self.store)
        self._owns_store = config.store is None
        self._sessions: LiveSessions | None = None
        self._service: Service | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Future[None] | None = None
        self._anchoring: asyncio.Future[None] | None = None
        self._is_closed = asyncio.Event()
        self._is_ending = asyncio.Event()
        self._retaining: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        """The tasks of `ask`; the event loop keeps only weak references."""
        self._in_flight = 0
        self._is_idle = asyncio.Event()

    async def __aenter__(self) -> Runtime:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin to answer operations."""
        if self._service is not None:
            raise UsageError("the runtime was started already; create another one")
        names, served = self._checked(self.config)
        self._loop = asyncio.get_running_loop()
        config = replace(self.config, on_session=self._on_session)
        self._sessions = LiveSessions(
            config, self.store, self.registry, served, names, self.quotas, time.monotonic
        )
        keys = IdempotencyKeys(self.store, time.time)
        catalog = ToolCatalog(self.config, self.store, self.registry, served, self._sessions)
        self._service = Service(
            self.config, self.store, self._sessions, keys, self.quotas, OPERATIONS, catalog
        )
        if self.config.idle_seconds is not None:
            self._sweeping = asyncio.ensure_future(
                _sweep(self._sessions, self.config.idle_seconds / 4)
            )

        if self.notifications is not None:
            self.notifications.start(self.bus)
        if self.config.anchors is not None:
            from toolcrib.store.anchors import anchors_of, send_anchors

            all_anchors = anchors_of(self.store, self.config.anchors, time.time)
            every_seconds = self.config.anchors.every_seconds
            self._anchoring = asyncio.ensure_future(
                send_anchors(all_anchors, every_seconds, self._is_closed)
            )
        if self.config.retention is not None:
            from toolcrib.store.retention import keep_retention

            self._retaining = asyncio.ensure_future(
                keep_retention(self.store, self.config.retention, self._is_ending)
            )

    def reconfigure(self, config: RuntimeConfig) -> None:
        """Use another configuration from now on, in one step. Only what says who may do what, and
        with which tools, is taken from it: policy, approver and hooks, for open sessions too;
        toolsets, hosted tools, call limits, instructions, expected tools, what callers may choose
        and whether they approve their own calls, for what begins from now on.

        Raises `UsageError` for a name that no tool has, and then nothing has changed. MCP servers
        are replaced with `service.remount_servers`.
        """
        changed = replace(
            self.config,
            **{name: getattr(config, name) for name in _CHANGEABLE},
        )
        names, served = self._checked(changed)
        if self._sessions is not None and self._service is not None:
            with_bus = replace(changed, on_session=self._on_session)
            self._sessions.reconfigure(with_bus, served, names)
            self._service.reconfigure(changed)
            self._service.catalog.reconfigure(changed, served)
        self.config = changed

    def _checked(self, config: RuntimeConfig) -> tuple[NameCheck, ServedTools]:
        """Raise `UsageError` for a configuration that does not fit its tools."""
        names, served = NameCheck(config), served_tools(config)
        names.at_start(self.registry.names() | served.names)
        if config.policy is not None:
            tools = [*self.registry.list_tools(), *served.of_toolsets.values()]
            check_rules(config.policy, map(prepare, tools))
        return names, served

    async def close(self) -> None:
        """Refuse new operations, let running ones end within the drain time, cancel the rest, and
        close every session. Cancelling the wait does not cancel the closing.
        """
        if self._sessions is None:
            return
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(self._sessions))
        await asyncio.shield(self._closing)

    async def _close(self, sessions: LiveSessions) -> None:
        self._is_ending.set()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        for live in sessions:
            live.stop_waiting()
        await self._wait_until_idle(self.config.drain_seconds)
        await sessions.close_all()
        # Cancelled operations have yet to report so to their clients.
        await self._wait_until_idle(STOP_SECONDS)
        if self.notifications is not None:
            await self.notifications.close()
        if self._anchoring is not None:
            # It sends what changed once more, now that every session is closed.
            self._is_closed.set()
            await self._anchoring
        if self._retaining is not None:
            await self._retaining
        if self._owns_store:
            self.store.close()

    def _on_session(self, session: Session) -> None:
        if self.bus.subscribers:
            session.bus.forward_to(self.bus)
        if self.config.on_session is not None:
            self.config.on_session(session)

    @property
    def is_ready(self) -> bool:
        """Whether operations are answered and mounted servers have had their chance to connect."""
        if self._sessions is None or self._closing is not None:
            return False
        return self._sessions.servers.are_ready

    @property
    def state(self) -> RuntimeState:
        """How much is open now. Nothing is, before the start."""
        if self._sessions is None:
            return RuntimeState()
        return RuntimeState(len(list(self._sessions)), self._sessions.servers.faults())

    async def _wait_until_idle(self, seconds: float) -> None:
        if self._in_flight:
            self._is_idle.clear()
            await wait_at_most(self._is_idle, seconds)

    @property
    def is_closing(self) -> bool:
        """Whether no new operations are accepted any more."""
        return self._closing is not None

    @property
    def service(self) -> Service:
        """The operations. Raises `Refused` unless the runtime is started and not closing."""
        if self._service is None:
            raise Refused("unavailable", "the runtime is not started")
        if self._closing is not None:
            raise Refused("closing", "the runtime is closing; no new operations are accepted")
        return self._service

    def as_principal(self, who: Principal) -> PrincipalOperations:
        """The operations of this runtime as another principal than the process itself."""
        return PrincipalOperations(self, who)

    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation by its name, as the process itself."""
        return await self.ask(name, params, OWNER)

    def events(self, session_id: str, after: int = 0) -> SessionEvents:
        """The events of a session after the record `after`, then those that happen."""
        return self.as_principal(OWNER).events(session_id, after)

    async def ask(self, name: str, params: object = None, who: Principal = OWNER) -> Any:
        """Run one operation. Raises `Refused`; an unexpected error is logged and refused without
        its details.

        Cancelling the wait does not cancel the operation: a call or a prompt is ended by its own
        operation.
        """
        loop = asyncio.get_running_loop()
        if self._service is not None and loop is not self._loop:
            raise UsageError("use a runtime in the event loop that it was started in")
        task = loop.create_task(self.ask_inline(name, params, who))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def ask_inline(self, name: str, params: object = None, who: Principal = OWNER) -> Any:
        """`ask` without a task of its own, for transports that run every request in a task which
        they do not cancel.
        """
        operation, service = _operation(name), self.service
        self._in_flight += 1
        try:
            return await operation.ask(service, params, who)
        except Refused:
            raise
        except asyncio.CancelledError:
            # Closing a session cancels the task of each call in it. That ends the operation, not
            # the task, which belongs to the transport.
            task = asyncio.current_task(self._loop)
            while task is not None and task.uncancel() > 0:
                pass
            raise Refused("closing", f"the session was closed before {name} ended") from None
        except SessionNotFound:
            raise Refused("not_found", "there is no such session") from None
        except LeaseLost:
            raise Refused("conflict", "another process has taken over the session") from None
        except Exception:
            logger.exception("%s failed", name)
            raise Refused(
                "internal", f"{name} failed unexpectedly; see the runtime's log for the cause"
            ) from None
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._is_idle.set()


class PrincipalOperations(ChatOperations):
    """The operations of a runtime in this process, as one principal."""

    def __init__(self, runtime: Runtime, who: Principal) -> None:
        self.store = runtime.store
        self._runtime = runtime
        self._who = who

    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation by its name, as the principal."""
        return await self._runtime.ask(name, params, self._who)

    def events(self, session_id: str, after: int = 0) -> SessionEvents:
        """The events of a session after the record `after`, then those that happen."""

        async def follow(seq: int) -> ReaderSource:
            service = self._runtime.service
            await service.wake(session_id, self._who)
            return ReaderSource(service.follow(session_id, seq, self._who))

        return SessionEvents(follow, after)


def _notifications(config: RuntimeConfig, store: Store) -> NotificationWatch | None:
    if not config.notifications:
        return None
    from toolcrib.notifications.watch import NotificationWatch

    return NotificationWatch(config.notifications, store)


def _registry(config: RuntimeConfig) -> HostToolRegistry:
    """The registry that is served: the one given, one of the tools given, or the default one."""
    if not config.tools:
        registry = config.host_tool_registry
        return host_tool_registry if registry is None else registry
    own = HostToolRegistry()
    own.add_all((tool, None) for tool in config.tools)
    return own


async def _sweep(sessions: LiveSessions, seconds: float) -> None:
    """Let go of idle sessions, every `seconds`."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await sessions.close_idle()
        except Exception:
            logger.exception("closing idle sessions failed")


def _operation(name: str) -> Operation:
    operation = OPERATIONS.get(name)
    if operation is None:
        raise Refused("not_found", f"there is no operation {name[:80]!r}")
    return operation


def create_runtime(config: RuntimeConfig | None = None) -> Runtime:
    """A runtime that has not started: it has opened, listened on and written nothing yet."""
    return Runtime(config or RuntimeConfig())
