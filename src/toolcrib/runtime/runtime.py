"""A runtime: sessions and tools behind one service, started and closed explicitly."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.calls.tool_table import check_rules
from toolcrib.errors import LeaseLost, Refused, SessionNotFound, SessionNotHere, UsageError
from toolcrib.features.declaration import missing_features
from toolcrib.host_tools.registry import HostToolRegistry, host_tool_registry
from toolcrib.runtime.catalog import ToolCatalog
from toolcrib.runtime.chat import ChatOperations
from toolcrib.runtime.client_answers import ClientAnswers
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.gateway_credentials import GatewayCredentials
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
from toolcrib.runtime.turn_progress import Advanced, advance_open_prompt
from toolcrib.session.bus import EventBus
from toolcrib.store.memory import MemoryStore
from toolcrib.store.shared_store import is_shared
from toolcrib.tools.prepared_tool import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.notifications.watch import NotificationWatch
    from toolcrib.runtime.attached_clients import ClientCallLink
    from toolcrib.runtime.remote_stream import ReplicaEvents
    from toolcrib.runtime.replica_routes import ForwardedOperation, ReplicaLink, ReplicaRoutes
    from toolcrib.runtime.shared_turns import SharedTurns
    from toolcrib.session.session import Session
    from toolcrib.store.shared_store import ClaimedTurn
    from toolcrib.store.store import Store

logger = logging.getLogger(__name__)

_CHANGEABLE: Final = (
    *("toolsets", "hosted_tools", "mcp_servers", "instructions", "policy", "approver", "responder"),
    *("approve_own_calls", "hooks", "expected_tools", "limits", "egress", "callers_choose"),
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
        self._routes: ReplicaRoutes | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Future[None] | None = None
        self._anchoring: asyncio.Future[None] | None = None
        self._replica_events: ReplicaEvents | None = None
        self.gateway = GatewayCredentials(config, self.store)
        self.client_answers = ClientAnswers()
        """Between replicas, the answers of clients that came to another one than asked."""
        self._is_closed = asyncio.Event()
        self._is_ending = asyncio.Event()
        self._retaining: asyncio.Future[None] | None = None
        self._shared_turns: SharedTurns | None = None
        self._draining: asyncio.Future[None] | None = None
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
            config, self.store, self.registry, served, names, self.quotas, self.gateway
        )
        keys = IdempotencyKeys(self.store, time.time)
        catalog = ToolCatalog(self.config, self.store, self.registry, served, self._sessions)
        self._service = Service(
            self.config, self.store, self._sessions, keys, self.quotas, OPERATIONS, catalog
        )
        if self._replica_events is not None:
            self.reach_replicas(self._replica_events)
        if is_shared(self.store):
            from toolcrib.runtime.shared_turns import SharedTurns

            self._shared_turns = SharedTurns(self.store, self._sessions, lambda: self.config)
            self._service.queued_turns = self._shared_turns.queued
            await self._shared_turns.start(self)
        idle_seconds = self.config.idle_after(is_shared=is_shared(self.store))
        if idle_seconds is not None:
            self._sweeping = asyncio.ensure_future(_sweep(self._sessions, idle_seconds / 4))
        if is_shared(self.store):
            from toolcrib.runtime.replica_routes import ReplicaRoutes

            self._routes = ReplicaRoutes(self.store, self._sessions)
            self._routes.start()

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
            tools = [*self.registry.list_tools(), *served.of_toolsets.values(), *missing_features()]
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
        ends_at = asyncio.get_running_loop().time() + self.config.drain_seconds
        self.start_draining()
        if self._draining is not None:
            await self._draining
        for live in sessions:
            live.stop_waiting()
        await self._wait_until_idle(max(ends_at - asyncio.get_running_loop().time(), 0.0))
        if self._shared_turns is not None:
            await self._shared_turns.leave()
        await sessions.close_all()
        if self._service is not None and self._service.shared_events is not None:
            await self._service.shared_events.close()
        # Cancelled operations have yet to report so to their clients.
        await self._wait_until_idle(STOP_SECONDS)
        await self._leave_replicas()
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

    async def _leave_replicas(self) -> None:
        """Take no turns of a shared store any more, and hear no hints."""
        if self._shared_turns is not None:
            await self._shared_turns.close()
        if self._routes is not None:
            self._routes.close()

    def start_draining(self) -> None:
        """Begin to hand over the turns that run here to other replicas, before the runtime closes.
        Nothing happens unless the store is shared.
        """
        if self._shared_turns is not None and self._draining is None:
            drain = self._shared_turns.drain(self.config.drain_seconds)
            self._draining = asyncio.ensure_future(drain)

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

    async def advance(self, session_id: str) -> Advanced:
        """Go on with the turn of a session: open it, begin its prompt or resume it, run until the
        model has answered or something has to be waited for, and let the session go.

        It may be called any number of times, in any process that has the store: the ledger says
        what is left to do, and a session that another run has is left alone. Cancelling the wait
        does not cancel the turn. Raises `Refused`.
        """
        self._check_loop()
        service, sessions = self.service, self._sessions
        assert sessions is not None, "a service has its sessions"
        if self._shared_turns is not None:
            return await self._shared_turns.advance(session_id)
        self._in_flight += 1
        try:
            return await advance_open_prompt(sessions, self.store, service.config, session_id)
        finally:
            self._leave()

    def reach_replicas(self, events: ReplicaEvents) -> None:
        """Follow sessions that are open at other replicas of a shared store by `events`, which is
        closed with the runtime.
        """
        self._replica_events = events
        if self._service is not None and self._service.shared_events is not None:
            self._service.shared_events.elsewhere = events

    async def run_claimed(self, claimed: ClaimedTurn, *, leaves_idle: bool = False) -> Advanced:
        """Go on with a turn that was claimed from the store for this runtime, as `advance` does.
        One that is closing leaves it to others; with `leaves_idle`, so does one that has the
        session open and does not use it.
        """
        assert self._shared_turns is not None, "a turn is claimed from a shared store"
        if self._closing is not None:
            await self._shared_turns.claimed.hand_back(claimed)
            return Advanced(claimed.turn.session_id, "elsewhere")
        self._in_flight += 1
        try:
            return await self._shared_turns.claimed.run(claimed, leaves_idle=leaves_idle)
        finally:
            self._leave()

    def events(self, session_id: str, after: int = 0) -> SessionEvents:
        """The events of a session after the record `after`, then those that happen."""
        return self.as_principal(OWNER).events(session_id, after)

    async def ask(self, name: str, params: object = None, who: Principal = OWNER) -> Any:
        """Run one operation. Raises `Refused`; an unexpected error is logged and refused without
        its details.

        Cancelling the wait does not cancel the operation: a call or a prompt is ended by its own
        operation.
        """
        task = self._check_loop().create_task(self.ask_inline(name, params, who))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    @property
    def has_open_sessions(self) -> bool:
        """Whether a session is open in this process."""
        return self._sessions is not None and any(True for _ in self._sessions)

    def _check_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._service is not None and loop is not self._loop:
            raise UsageError("use a runtime in the event loop that it was started in")
        return loop

    def link_replicas(
        self, link: ReplicaLink | None, clients: ClientCallLink | None = None
    ) -> None:
        """Forward operations over this link from now on to replicas that have their sessions open,
        and client calls over `clients` to those that have the connection; None ends it. Nothing
        happens unless the store is shared.
        """
        if self._routes is not None and self._sessions is not None:
            self._routes.link = link
            self._sessions.clients.elsewhere = clients

    async def ask_here(self, forwarded: ForwardedOperation) -> Any:
        """Answer an operation that another replica has forwarded; it is not forwarded again. Raises
        `Refused`, and `SessionNotHere` when its session is not open here.
        """
        session_id, sessions = forwarded.session_id, self._sessions
        is_here = sessions is not None and (
            session_id is None or sessions.find(session_id) is not None
        )
        if self._closing is not None or not is_here:
            raise SessionNotHere("the session is not open here")
        return await self.ask_inline(
            forwarded.operation, forwarded.params, forwarded.who, is_forwarded=True
        )

    async def ask_inline(
        self,
        name: str,
        params: object = None,
        who: Principal = OWNER,
        *,
        is_forwarded: bool = False,
    ) -> Any:
        """`ask` without a task of its own, for transports that run every request in a task which
        they do not cancel.
        """
        operation, service = _operation(name), self.service
        self._in_flight += 1
        try:
            if self._routes is None or is_forwarded:
                return await operation.ask(service, params, who)
            return await self._routes.ask(operation, service, params, who)
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
            self._leave()

    def _leave(self) -> None:
        """An operation has ended."""
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
            return ReaderSource(await service.open_reader(session_id, seq, self._who))

        return SessionEvents(follow, after)


def _notifications(config: RuntimeConfig, store: Store) -> NotificationWatch | None:
    if not config.notifications:
        return None
    from toolcrib.notifications.watch import NotificationWatch

    return NotificationWatch(config.notifications, store)


def _registry(config: RuntimeConfig) -> HostToolRegistry:
    """The registry that is served: the one given, one of the tools given, or the default one."""
    if not config.tools and not config.features:
        registry = config.host_tool_registry
        return host_tool_registry if registry is None else registry
    own = HostToolRegistry()
    own.add_all((tool, None) for tool in config.tools)
    own.add_features(config.features)
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
