"""The sessions that a runtime holds: opened, found, forked, closed.

How a session was set up, kept with it: whoever opens it again gets no more than it had.

A session that begins with what happened in another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from toolcrib.errors import LeaseHeld, Refused, SessionNotFound, UsageError
from toolcrib.host_tools.session_tools import SessionTools
from toolcrib.ledger.events import Event, SessionOpened, ToolInvoked
from toolcrib.ledger.record import Record, events
from toolcrib.runtime.client_tools import ClientCalls, bring_again, brought
from toolcrib.runtime.live_session import LiveSession
from toolcrib.runtime.messages import CreateSession, ResumeSession, SessionFacts
from toolcrib.runtime.mounted_servers import MountedServers
from toolcrib.session.session import Session
from toolcrib.store.ledger_writer import entry_of
from toolcrib.store.store import Artifact, ArtifactKept, Effect, ask_store, every

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.store import SessionInfo, Store


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """What stays of a request for a session. Its environment does not: that may hold secrets."""

    cwd: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    allowed_tools: list[str] | None = None
    denied_tools: list[str] = field(default_factory=list[str])


def setup_of(settings: Mapping[str, Any]) -> SessionSetup:
    """The setup of a session by the settings that its store has."""
    return _adapter().validate_python(settings.get("host", {}).get("setup", {}))


def to_keep(asked: CreateSession, cwd: str) -> dict[str, Any]:
    """What is kept of a request, as JSON."""
    return _adapter().dump_python(
        SessionSetup(cwd, dict(asked.metadata), asked.allowed_tools, asked.denied_tools),
        mode="json",
    )


def asked_again(setup: SessionSetup, asked: ResumeSession) -> CreateSession:
    """The request that opens a session of this setup again."""
    return CreateSession(
        session_id=asked.session_id,
        cwd=setup.cwd,
        environment=asked.environment,
        metadata=setup.metadata,
        allowed_tools=setup.allowed_tools,
        denied_tools=setup.denied_tools,
        capabilities=asked.capabilities,
        client_tools=asked.client_tools,
    )


def wanted_by(asked: CreateSession) -> Callable[[str], bool]:
    """Whether whoever asked for a session wants a tool of a name in it."""
    allowed, denied = asked.allowed_tools, frozenset(asked.denied_tools)
    return lambda name: (allowed is None or name in allowed) and name not in denied


@cache
def _adapter() -> TypeAdapter[SessionSetup]:
    return TypeAdapter(SessionSetup)


async def retell(session: Session, source_id: str, records: Sequence[Record], turn: int) -> None:
    """Write down what happened in the session `source_id`, up to its turn `turn`.

    What waits there waits only there: a question is asked once.
    """
    for event in events(records):
        if not isinstance(event, SessionOpened):
            retold = replace(event, session_id=session.session_id)
            session.append_soon(entry_of(retold), _artifacts(session.store, source_id, event))
    session.number_turns_after(turn)
    await session.ledger.flush()
    await ask_store(session.store, session.save_settings)


def _artifacts(store: Store, source_id: str, event: Event) -> tuple[Effect, ...]:
    """The whole result of a call whose event has only a part of it."""
    if not isinstance(event, ToolInvoked) or event.artifact_id is None:
        return ()
    text = store.artifact(source_id, event.artifact_id)
    if text is None:
        return ()
    return (ArtifactKept(Artifact(event.artifact_id, event.call_id, text)),)


logger = logging.getLogger(__name__)


class LiveSessions:
    """Opens sessions of the store with their tools, and keeps them by id."""

    def __init__(self, config: RuntimeConfig, store: Store, registry: HostToolRegistry) -> None:
        self._config = config
        self._store = store
        self._held: dict[str, LiveSession] = {}
        self._opening = asyncio.Lock()
        self._registry = registry
        self._servers = MountedServers(config.mcp_servers, lambda: self)

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(list(self._held.values()))

    def find(self, session_id: str) -> LiveSession | None:
        """A session, if it is open here."""
        return self._held.get(session_id)

    def get(self, session_id: str) -> LiveSession:
        """A session that is open here. Raises `Refused` (not_found)."""
        held = self._held.get(session_id)
        if held is None:
            raise Refused(
                "not_found", f"no session {session_id[:128]!r} is open here; create or resume it"
            )
        return held

    async def create(self, asked: CreateSession, who: Principal) -> LiveSession:
        """Open a new session. Raises `Refused` when the id is taken."""
        await self._servers.ready()
        async with self._opening:
            session_id = asked.session_id
            if session_id is not None and await self._info(session_id) is not None:
                raise Refused("conflict", f"there is a session {session_id!r} already; resume it")
            return await self._open(asked, who, is_new=True)

    async def resume(self, asked: ResumeSession, who: Principal) -> LiveSession:
        """Open a session that the store has. One that is open here stays as it is, and gets what
        the client brings.
        """
        await self._servers.ready()
        async with self._opening:
            held = self._held.get(asked.session_id)
            if held is None:
                setup = setup_of((await self._known(asked.session_id)).settings)
                return await self._open(asked_again(setup, asked), who, is_new=False)
        bring_again(held, asked.client_tools, who)
        if asked.capabilities:
            held.tools.set_capabilities(asked.capabilities)
        return held

    async def fork(self, session_id: str, new_id: str | None, who: Principal) -> LiveSession:
        """Open a new session that begins with what happened in another one, open or not."""
        info, source = await self._known(session_id), self._held.get(session_id)
        setup = setup_of(info.settings)
        records = await ask_store(self._store, lambda: self.records(session_id))
        asked = CreateSession(
            session_id=new_id,
            cwd=setup.cwd,
            environment=dict(source.session.environment) if source else {},
            metadata={**setup.metadata, "forked_from": session_id},
            allowed_tools=setup.allowed_tools,
            denied_tools=setup.denied_tools,
        )
        held = await self.create(asked, who)
        turn = source.session.last_turn if source else int(info.settings.get("turn", 0))
        await retell(held.session, session_id, records, turn)
        return held

    async def delete(self, session_id: str) -> None:
        """Delete a session, open here or not. Raises `Refused` (not_found)."""
        await self._known(session_id)
        if session_id in self._held:
            await self.close(session_id)
        try:
            await ask_store(self._store, self._store.delete_session, session_id)
        except LeaseHeld:
            raise Refused("conflict", "another process has the session open") from None

    async def close(self, session_id: str) -> None:
        """Let go of a session; what it holds stays in the store."""
        held = self.get(session_id)
        del self._held[session_id]
        try:
            await held.close()
        finally:
            await self._servers.unmount(session_id)

    @asynccontextmanager
    async def writing(self, session_id: str) -> AsyncGenerator[Session]:
        """A session to write to: the one that is open here, or one that is opened just for that.
        Raises `Refused` (conflict) while another process has it open.
        """
        held = self._held.get(session_id)
        if held is not None:
            yield held.session
            return
        # Whoever resumes it meanwhile waits, and does not take us for another process.
        async with self._opening:
            await self._known(session_id)
            try:
                session = await Session.open(self._store, session_id)
            except LeaseHeld:
                raise Refused(
                    "conflict",
                    "another process has the session open and alone writes its ledger: decide "
                    "there, or here without a grant",
                ) from None
            try:
                yield session
            finally:
                await session.close()

    async def close_all(self) -> None:
        """Let go of every session; one that fails to close does not keep the others open."""
        closing = [self.close(session_id) for session_id in list(self._held)]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                logger.error("a session could not be closed", exc_info=error)
        await self._servers.close()

    async def remount_servers(self, servers: Sequence[McpServerConfig]) -> None:
        """Have the tools of these servers in all sessions, in the place of those of before."""
        await self._servers.remount(servers)

    async def mount_servers(self, session_id: str, servers: Sequence[McpServerConfig]) -> None:
        """Give a session that is open here the tools of servers that its client brings."""
        await self._servers.mount_for(self.get(session_id), servers)

    async def facts(self) -> list[SessionFacts]:
        """Every session of the store, open here or not."""
        return await ask_store(self._store, self._all_facts)

    def _all_facts(self) -> list[SessionFacts]:
        sessions = every(lambda cursor: self._store.sessions(cursor=cursor))
        return [self._facts(info) for info in sessions]

    async def facts_of(self, session_id: str) -> SessionFacts:
        """One session of the store. Raises `Refused` (not_found)."""
        info = await self._known(session_id)
        return await ask_store(self._store, self._facts, info)

    def records(self, session_id: str, after: int = 0, most: int | None = None) -> list[Record]:
        """What a session's ledger has after a place. May touch the disk."""
        held = self._held.get(session_id)
        if held is not None:
            return list(held.session.records(after, limit=most))
        return list(self._store.records(session_id, after=after, limit=most))

    def _facts(self, info: SessionInfo) -> SessionFacts:
        held, setup = self._held.get(info.session_id), setup_of(info.settings)
        head = held.session.head() if held else info.head
        pending = every(
            lambda cursor: self._store.approvals(
                session_id=info.session_id, state="pending", cursor=cursor
            )
        )
        return SessionFacts(
            session_id=info.session_id,
            state="open" if held else "closed",
            last_seq=head.seq if head else 0,
            turn=held.session.last_turn if held else int(info.settings.get("turn", 0)),
            is_busy=held.slot.is_busy if held else False,
            pending_approvals=sum(1 for _ in pending),
            cwd=held.session.cwd if held else setup.cwd,
            metadata=dict(held.session.metadata) if held else setup.metadata,
            unavailable_tools=dict(held.unavailable) if held else {},
        )

    async def _known(self, session_id: str) -> SessionInfo:
        info = await self._info(session_id)
        if info is None:
            raise Refused("not_found", f"there is no session {session_id[:128]!r}")
        return info

    async def _info(self, session_id: str) -> SessionInfo | None:
        try:
            return await ask_store(self._store, self._store.session, session_id)
        except SessionNotFound:
            return None

    async def _open(self, asked: CreateSession, who: Principal, *, is_new: bool) -> LiveSession:
        most = self._config.max_sessions
        if len(self._held) >= most:
            raise Refused("unavailable", f"{most} sessions are open, and no more may be; close one")
        session = await self._session(asked)
        try:
            held = self._hold(session, asked, who)
            await ask_store(session.store, session.save_settings)
        except BaseException:
            await self._take_back(session, is_new=is_new)
            raise
        self._held[session.session_id] = held
        # What changed while the settings were saved was told to nobody.
        self._servers.bring_up_to_date(held)
        return held

    async def _take_back(self, session: Session, *, is_new: bool) -> None:
        await session.close()
        await self._servers.unmount(session.session_id)
        await self._registry.close_session(session.session_id)
        if is_new:
            await ask_store(self._store, self._store.delete_session, session.session_id)

    async def _session(self, asked: CreateSession) -> Session:
        config, options = self._config, dict[str, Any]()
        options["cwd"] = asked.cwd or config.cwd
        options["environment"] = {**config.environment, **asked.environment}
        options["metadata"] = asked.metadata
        return await _opened(self._store, asked.session_id, **options)

    def _hold(self, session: Session, asked: CreateSession, who: Principal) -> LiveSession:
        session_id, is_wanted = session.session_id, wanted_by(asked)
        known = self._registry.list_tools(session_id=session_id)
        taken = {definition.name for definition in known}
        remote = self._servers.mount(session, taken, is_wanted)
        own = brought(asked.client_tools, taken | remote.tools.keys())
        client = ClientCalls()
        if own:
            client.belong_to(who)
        session.set_host_setting("setup", to_keep(asked, session.cwd))
        if self._config.on_session is not None:
            self._config.on_session(session)
        tools = SessionTools(
            self._registry,
            session,
            [*remote.tools.values(), *own],
            capabilities=asked.capabilities,
            is_wanted=is_wanted,
            on_removed=lambda name: self._make_room(session_id),
        )
        return LiveSession(
            session,
            tools,
            self._config,
            client,
            missing=remote.unavailable,
            own_tools=[tool.name for tool in own],
        )

    def _make_room(self, session_id: str) -> None:
        """A tool of the host is gone: a server may have had one of that name all along."""
        held = self._held.get(session_id)
        if held is not None:
            self._servers.bring_up_to_date(held)


async def _opened(store: Store, session_id: str | None, **options: Any) -> Session:
    try:
        return await Session.open(store, session_id, **options)
    except LeaseHeld as error:
        raise Refused("conflict", f"another process has the session open: {error}") from None
    except UsageError as error:
        raise Refused("invalid", str(error)) from None
