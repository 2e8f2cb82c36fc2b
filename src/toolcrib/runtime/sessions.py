"""The live sessions of a runtime: opened from the store with their tools, found, forked, closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from toolcrib.approval.globs import name_matches
from toolcrib.errors import LeaseHeld, Refused, SessionNotFound, UsageError
from toolcrib.host_tools.session_tools import SessionTools
from toolcrib.ledger.events import (
    Event,
    PayloadsDeleted,
    SessionOpened,
    SessionRestored,
    SettingsSaved,
    ToolInvoked,
)
from toolcrib.ledger.record import Record, deletion_end, events
from toolcrib.runtime.client_tools import (
    ClientCalls,
    admit_client_tools,
    new_client_tools,
    update_client_tools,
)
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
    from toolcrib.runtime.name_check import NameCheck
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.store import SessionInfo, Store


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """The part of `session.create` that is stored with a session. The environment is left out: it
    may hold secrets.
    """

    cwd: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    allowed_tools: list[str] | None = None
    denied_tools: list[str] = field(default_factory=list[str])


def setup_of(settings: Mapping[str, Any]) -> SessionSetup:
    """The setup in the stored settings of a session."""
    return _adapter().validate_python(settings.get("host", {}).get("setup", {}))


def setup_json(params: CreateSession, cwd: str) -> dict[str, Any]:
    """The setup of a new session, as JSON."""
    return _adapter().dump_python(
        SessionSetup(cwd, dict(params.metadata), params.allowed_tools, params.denied_tools),
        mode="json",
    )


def reopen_params(setup: SessionSetup, params: ResumeSession) -> CreateSession:
    """The parameters that open a session with this setup again."""
    return CreateSession(
        session_id=params.session_id,
        cwd=setup.cwd,
        environment=params.environment,
        metadata=setup.metadata,
        allowed_tools=setup.allowed_tools,
        denied_tools=setup.denied_tools,
        capabilities=params.capabilities,
        client_tools=params.client_tools,
    )


def tool_filter(params: CreateSession) -> Callable[[str], bool]:
    """The test whether a session may have a tool, by its allowed and denied names and globs."""
    allowed, denied = params.allowed_tools, params.denied_tools
    return lambda name: (allowed is None or _fits(allowed, name)) and not _fits(denied, name)


def _fits(globs: Sequence[str], name: str) -> bool:
    return any(name_matches(glob, name) for glob in globs)


@cache
def _adapter() -> TypeAdapter[SessionSetup]:
    return TypeAdapter(SessionSetup)


_OF_ONE_SESSION = (SessionOpened, SessionRestored, SettingsSaved, PayloadsDeleted)
"""Events about a session itself, which are not true of its forks."""


async def copy_history(
    session: Session, source_id: str, records: Sequence[Record], turn: int
) -> None:
    """Copy the events of the session `source_id` into another session, which continues after
    `turn`. Pending approvals are not copied: each is decided once.
    """
    for event in events(records, lambda: deletion_end(records)):
        if not isinstance(event, _OF_ONE_SESSION):
            copy = replace(event, session_id=session.session_id)
            session.append_soon(entry_of(copy), _artifacts(session.store, source_id, event))
    session.number_turns_after(turn)
    session.number_calls_after(record.call_id for record in records)
    await session.ledger.flush()
    await ask_store(session.store, session.save_settings)


def _artifacts(store: Store, source_id: str, event: Event) -> tuple[Effect, ...]:
    """The full result of a call whose event holds only a part of it."""
    if not isinstance(event, ToolInvoked) or event.artifact_id is None:
        return ()
    text = store.artifact(source_id, event.artifact_id)
    if text is None:
        return ()
    return (ArtifactKept(Artifact(event.artifact_id, event.call_id, text)),)


logger = logging.getLogger(__name__)


class LiveSessions:
    """The sessions that are open in this process, by id: opened with their tools, found, closed."""

    def __init__(
        self, config: RuntimeConfig, store: Store, registry: HostToolRegistry, names: NameCheck
    ) -> None:
        self._config = config
        self._names = names
        self._store = store
        self._live: dict[str, LiveSession] = {}
        self._opening = asyncio.Lock()
        self._registry = registry
        self._servers = MountedServers(config.mcp_servers, lambda: self)

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(list(self._live.values()))

    def find(self, session_id: str) -> LiveSession | None:
        """A live session; None when it is not open here."""
        return self._live.get(session_id)

    def get(self, session_id: str) -> LiveSession:
        """A live session. Raises `Refused` (not_found)."""
        live = self._live.get(session_id)
        if live is None:
            raise Refused(
                "not_found", f"session {session_id[:128]!r} is not open here; create or resume it"
            )
        return live

    async def create(self, params: CreateSession, who: Principal) -> LiveSession:
        """Open a new session. Raises `Refused` (conflict) when the id is taken."""
        await admit_client_tools(params.client_tools)
        await self._servers.ready()
        async with self._opening:
            session_id = params.session_id
            if session_id is not None and await self._info(session_id) is not None:
                raise Refused("conflict", f"there is a session {session_id!r} already; resume it")
            return await self._open(params, who, is_new=True)

    async def created(self, params: CreateSession, who: Principal) -> SessionFacts | None:
        """The session that these parameters made, open again; None when there is none."""
        session_id = params.session_id
        if session_id is None or await self._info(session_id) is None:
            return None
        if session_id not in self._live:
            again = ResumeSession(
                session_id=session_id,
                environment=params.environment,
                capabilities=params.capabilities,
                client_tools=params.client_tools,
            )
            await self.resume(again, who)
        return await self.facts_of(session_id)

    async def resume(self, params: ResumeSession, who: Principal) -> LiveSession:
        """Open a session of the store. A live session stays as it is and gets the client tools."""
        await admit_client_tools(params.client_tools)
        await self._servers.ready()
        async with self._opening:
            live = self._live.get(params.session_id)
            if live is None:
                setup = setup_of((await self._stored(params.session_id)).settings)
                return await self._open(reopen_params(setup, params), who, is_new=False)
        update_client_tools(live, params.client_tools, who)
        if params.capabilities:
            live.tools.set_capabilities(params.capabilities)
        return live

    async def fork(self, session_id: str, new_id: str | None, who: Principal) -> LiveSession:
        """Open a new session that begins with the history of another one, live or not."""
        info, source = await self._stored(session_id), self._live.get(session_id)
        setup = setup_of(info.settings)
        records = await ask_store(self._store, lambda: self.records(session_id))
        params = CreateSession(
            session_id=new_id,
            cwd=setup.cwd,
            environment=dict(source.session.environment) if source else {},
            metadata={**setup.metadata, "forked_from": session_id},
            allowed_tools=setup.allowed_tools,
            denied_tools=setup.denied_tools,
            # They were checked when the first session was made; tools may have gone since.
            expected_tools=["*"],
        )
        live = await self.create(params, who)
        turn = source.session.last_turn if source else int(info.settings.get("turn", 0))
        await copy_history(live.session, session_id, records, turn)
        return live

    async def delete(self, session_id: str) -> None:
        """Delete a session, live or not. Raises `Refused` (not_found)."""
        await self._stored(session_id)
        if session_id in self._live:
            await self.close(session_id)
        try:
            await ask_store(self._store, self._store.delete_session, session_id)
        except LeaseHeld:
            raise Refused("conflict", "another process has the session open") from None

    async def close(self, session_id: str) -> None:
        """Close a live session; its ledger stays in the store."""
        live = self.get(session_id)
        del self._live[session_id]
        try:
            await live.close()
        finally:
            await self._servers.unmount(session_id)

    @asynccontextmanager
    async def writing(self, session_id: str) -> AsyncGenerator[Session]:
        """A session to write to: the live one, or one that is opened for the block. Raises
        `Refused` (conflict) while another process has it open.
        """
        live = self._live.get(session_id)
        if live is not None:
            yield live.session
            return
        # A resume in this process waits, instead of finding the lease taken.
        async with self._opening:
            await self._stored(session_id)
            try:
                session = await Session.open(
                    self._store, session_id, approve_own_calls=self._config.approve_own_calls
                )
            except LeaseHeld:
                raise Refused(
                    "conflict",
                    "another process has the session open and writes its ledger; decide there, or "
                    "here without a grant",
                ) from None
            try:
                yield session
            finally:
                await session.close()

    async def close_all(self) -> None:
        """Close every session. One that fails to close does not keep the others open."""
        closing = [self.close(session_id) for session_id in list(self._live)]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                logger.error("a session could not be closed", exc_info=error)
        await self._servers.close()

    async def remount_servers(self, servers: Sequence[McpServerConfig]) -> None:
        """Replace the MCP servers that are mounted in every session."""
        await self._servers.remount(servers)

    async def mount_servers(
        self, session_id: str, servers: Sequence[McpServerConfig], who: Principal
    ) -> None:
        """Mount the MCP servers of a client in its live session. An admin speaks for the host and
        may name any address; the addresses of others are bound by the egress policy.
        """
        egress = None if who.may("admin") else self._config.egress
        await self._servers.mount_for(self.get(session_id), servers, egress)

    async def facts(self) -> list[SessionFacts]:
        """Every session of the store, open here or not."""
        return await ask_store(self._store, self._all_facts)

    def _all_facts(self) -> list[SessionFacts]:
        sessions = every(lambda cursor: self._store.sessions(cursor=cursor))
        return [self._facts(info) for info in sessions]

    async def facts_of(self, session_id: str) -> SessionFacts:
        """The facts of one session of the store. Raises `Refused` (not_found)."""
        info = await self._stored(session_id)
        return await ask_store(self._store, self._facts, info)

    def records(self, session_id: str, after: int = 0, most: int | None = None) -> list[Record]:
        """The records of a session after a sequence number. May read from disk."""
        live = self._live.get(session_id)
        if live is not None:
            return list(live.session.records(after, limit=most))
        return list(self._store.records(session_id, after=after, limit=most))

    def _facts(self, info: SessionInfo) -> SessionFacts:
        live, setup = self._live.get(info.session_id), setup_of(info.settings)
        head = live.session.head() if live else info.head
        pending = every(
            lambda cursor: self._store.approvals(
                session_id=info.session_id, state="pending", cursor=cursor
            )
        )
        return SessionFacts(
            session_id=info.session_id,
            state="open" if live else "closed",
            last_seq=head.seq if head else 0,
            turn=live.session.last_turn if live else int(info.settings.get("turn", 0)),
            is_busy=live.slot.is_busy if live else False,
            pending_approvals=sum(1 for _ in pending),
            cwd=live.session.cwd if live else setup.cwd,
            metadata=dict(live.session.metadata) if live else setup.metadata,
            unavailable_tools=dict(live.unavailable) if live else {},
        )

    async def _stored(self, session_id: str) -> SessionInfo:
        info = await self._info(session_id)
        if info is None:
            raise Refused("not_found", f"there is no session {session_id[:128]!r}")
        return info

    async def _info(self, session_id: str) -> SessionInfo | None:
        try:
            return await ask_store(self._store, self._store.session, session_id)
        except SessionNotFound:
            return None

    async def _open(self, params: CreateSession, who: Principal, *, is_new: bool) -> LiveSession:
        max_sessions = self._config.max_sessions
        if len(self._live) >= max_sessions:
            raise Refused(
                "unavailable", f"the maximum of {max_sessions} sessions is open; close one"
            )
        session = await self._session(params)
        try:
            live = self._live_session(session, params, who, is_new=is_new)
            await ask_store(session.store, session.save_settings)
        except BaseException:
            await self._undo_open(session, is_new=is_new)
            raise
        self._live[session.session_id] = live
        # Server tools may have changed while the settings were saved.
        self._servers.refresh(live)
        return live

    async def _undo_open(self, session: Session, *, is_new: bool) -> None:
        await session.close()
        await self._servers.unmount(session.session_id)
        await self._registry.close_session(session.session_id)
        if is_new:
            await ask_store(self._store, self._store.delete_session, session.session_id)

    async def _session(self, params: CreateSession) -> Session:
        config, options = self._config, dict[str, Any]()
        options["cwd"] = params.cwd or config.cwd
        options["environment"] = {**config.environment, **params.environment}
        options["metadata"] = params.metadata
        options["approve_own_calls"] = config.approve_own_calls
        return await _open_session(self._store, params.session_id, **options)

    def _live_session(
        self, session: Session, params: CreateSession, who: Principal, *, is_new: bool
    ) -> LiveSession:
        session_id, is_wanted = session.session_id, tool_filter(params)
        known = self._registry.list_tools(session_id=session_id)
        taken = {definition.name for definition in known}
        remote = self._servers.mount(session, taken, is_wanted)
        own = new_client_tools(params.client_tools, taken | remote.tools.keys())
        self._names.at_session(self._registry.names() | self._servers.names())
        if is_new:
            own_names = {tool.name for tool in params.client_tools}
            self._names.session_params(params, taken | self._servers.names() | own_names)
        client = ClientCalls()
        if own:
            client.set_owner(who)
        session.set_host_setting("setup", setup_json(params, session.cwd))
        if self._config.on_session is not None:
            self._config.on_session(session)
        tools = SessionTools(
            self._registry,
            session,
            [*remote.tools.values(), *own],
            capabilities=params.capabilities,
            is_wanted=is_wanted,
            on_removed=lambda name: self._tool_removed(session_id),
        )
        return LiveSession(
            session,
            tools,
            self._config,
            client,
            missing=remote.unavailable,
            own_tools=[tool.name for tool in own],
        )

    def _tool_removed(self, session_id: str) -> None:
        """A host tool was removed: a server tool of the same name may take its place."""
        live = self._live.get(session_id)
        if live is not None:
            self._servers.refresh(live)


async def _open_session(store: Store, session_id: str | None, **options: Any) -> Session:
    try:
        return await Session.open(store, session_id, **options)
    except LeaseHeld as error:
        raise Refused("conflict", f"another process has the session open: {error}") from None
    except UsageError as error:
        raise Refused("invalid", str(error)) from None
