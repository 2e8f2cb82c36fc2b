"""The live sessions of a runtime: opened from the store with their tools, found, forked, closed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolcrib.errors import LeaseHeld, Refused, SessionNotFound
from toolcrib.host_tools.session_tools import SessionTools
from toolcrib.ledger.record import Record
from toolcrib.runtime.audit_operations import list_sessions
from toolcrib.runtime.client_tools import (
    ClientCalls,
    admit_client_tools,
    new_client_tools,
    update_client_tools,
)
from toolcrib.runtime.live_session import LiveAttendance, LiveSession, SessionOpening
from toolcrib.runtime.messages import (
    CreateSession,
    ListSessions,
    ResumeSession,
    SessionFacts,
    Sessions,
    SessionState,
)
from toolcrib.runtime.mounted_servers import MountedServers
from toolcrib.runtime.ownership import check_change, check_new_id, may_see, no_session, not_open
from toolcrib.runtime.session_setup import (
    copy_history,
    note_tools,
    open_session,
    reopen_params,
    report_tool_changes,
    session_facts,
    setup_json,
    setup_of,
    tool_filter,
)
from toolcrib.session.session import Session, union
from toolcrib.store.session_query import NO_COUNTS, SessionSummary
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.name_check import NameCheck
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.quotas import Quotas
    from toolcrib.runtime.served_tools import ServedTools
    from toolcrib.store.store import SessionInfo, Store


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestingSession:
    """A session that was let go while it was idle, with what it needs to come back as it was."""

    who: Principal
    params: ResumeSession


class LiveSessions:
    """The sessions that are open in this process, by id: opened with their tools, found, closed."""

    def __init__(
        self,
        config: RuntimeConfig,
        store: Store,
        registry: HostToolRegistry,
        served: ServedTools,
        names: NameCheck,
        quotas: Quotas,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._names = names
        self._store = store
        self._quotas = quotas
        self._clock = clock
        self._live: dict[str, LiveSession] = {}
        self._open_of: Counter[str] = Counter()
        """How many live sessions each principal has opened."""
        self._resting: dict[str, RestingSession] = {}
        self._shared: set[str] = set()
        self._opening = asyncio.Lock()
        self._registry = registry
        self._served = served
        self.servers = self._servers = MountedServers(config.mcp_servers, lambda: self)

    def reconfigure(self, config: RuntimeConfig, served: ServedTools, names: NameCheck) -> None:
        """Use another configuration: its policy, approver and hooks in the open sessions too, the
        rest in those that are opened from now on.
        """
        for live in self:
            live.reconfigure(config)
        self._config, self._served, self._names = config, served, names

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(list(self._live.values()))

    def find(self, session_id: str) -> LiveSession | None:
        """A live session; None when it is not open here."""
        return self._live.get(session_id)

    def get(self, session_id: str, who: Principal, *, to_change: bool = True) -> LiveSession:
        """A live session that `who` may use. Raises `Refused`: not_found also for a session of
        somebody else, forbidden for one that `who` may only read.
        """
        live = self._live.get(session_id)
        if live is None or not self._sees(who, session_id, live.session.owner):
            raise no_session(session_id)
        if to_change:
            self._check_change(who, session_id, live.session.owner)
        live.used_at = self._clock()
        return live

    async def wake(self, session_id: str, who: Principal, *, to_change: bool = True) -> LiveSession:
        """`get`, and a session that was let go while it was idle is opened again for its owner."""
        live = self._live.get(session_id)
        if live is not None and live.session.owner == who.name:
            live.used_at = self._clock()
            return live
        if live is None or not self._sees(who, session_id, live.session.owner):
            # The same read for a session that is not there and for one of somebody else.
            info = await self.seen(session_id, who)
            resting = self._resting.get(session_id)
            may_wake = info.owner == who.name or who.may("admin") or session_id in self._shared
            if resting is None or not may_wake:
                raise not_open(session_id)
            await self.resume(resting.params, resting.who)
        return self.get(session_id, who, to_change=to_change)

    def share(self, session_id: str) -> None:
        """Let every caller use a session that the host has chosen for all."""
        self._shared.add(session_id)

    def _sees(self, who: Principal, session_id: str, owner: str | None) -> bool:
        return may_see(who, owner) or (session_id in self._shared and who.may("caller"))

    def _check_change(self, who: Principal, session_id: str, owner: str | None) -> None:
        if session_id not in self._shared:
            check_change(who, owner)

    async def seen(self, session_id: str, who: Principal) -> SessionInfo:
        """A session of the store that `who` may see. Raises `Refused` (not_found)."""
        info = await self._info(session_id)
        if info is None or not self._sees(who, session_id, info.owner):
            raise no_session(session_id)
        return info

    async def create(self, params: CreateSession, who: Principal) -> LiveSession:
        """Open a new session, which `who` owns. Raises `Refused`: conflict when the id is taken,
        forbidden for a directory or a variable that `who` may not choose.
        """
        choices = self._config.callers_choose
        choices.check_environment(params.environment, who)
        params = replace(params, cwd=choices.cwd(params.cwd, self._config.cwd, who))
        return await self._create(params, who)

    async def _create(self, params: CreateSession, who: Principal) -> LiveSession:
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
        info = None if session_id is None else await self._info(session_id)
        if session_id is None or info is None or not may_see(who, info.owner):
            return None
        if session_id not in self._live:
            again = ResumeSession(
                session_id=session_id,
                environment=params.environment,
                capabilities=params.capabilities,
                client_tools=params.client_tools,
            )
            await self.resume(again, who)
        return await self.facts_of(session_id, who)

    async def resume(self, params: ResumeSession, who: Principal) -> LiveSession:
        """Open a session of the store. A live session stays as it is and gets the client tools."""
        self._config.callers_choose.check_environment(params.environment, who)
        await admit_client_tools(params.client_tools)
        await self._servers.ready()
        async with self._opening:
            info = await self.seen(params.session_id, who)
            self._check_change(who, params.session_id, info.owner)
            live = self._live.get(params.session_id)
            if live is None:
                setup = setup_of(info.settings)
                return await self._open(reopen_params(setup, params), who, is_new=False)
        update_client_tools(live, params.client_tools, who)
        if params.capabilities:
            live.tools.set_capabilities(params.capabilities)
        live.note_declared(params)
        return live

    async def fork(self, session_id: str, new_id: str | None, who: Principal) -> LiveSession:
        """Open a new session that begins with the history of another one, live or not."""
        check_new_id(new_id, who)
        info, source = await self.seen(session_id, who), self._live.get(session_id)
        self._check_change(who, session_id, info.owner)
        setup = setup_of(info.settings)
        records = await ask_store(self._store, self._records, session_id)
        params = CreateSession(
            session_id=new_id,
            cwd=setup.cwd,
            environment=self._environment_of(session_id),
            metadata={**setup.metadata, "forked_from": session_id},
            allowed_tools=setup.allowed_tools,
            denied_tools=setup.denied_tools,
            # They were checked when the first session was made; tools may have gone since.
            expected_tools=["*"],
        )
        live = await self._create(params, who)
        # At once: nobody may call in the fork before it asks about what its source asks about.
        saved = info.settings.get("need_user_approve_tools", ())
        listed = source.session.need_user_approve_tools if source else saved
        own = live.session.need_user_approve_tools
        live.session.need_user_approve_tools = union(own, listed)
        turn = source.session.last_turn if source else int(info.settings.get("turn", 0))
        await copy_history(live.session, session_id, records, turn)
        return live

    def _environment_of(self, session_id: str) -> dict[str, str]:
        """The environment of a session that is open here or was let go; it is not stored."""
        live, resting = self._live.get(session_id), self._resting.get(session_id)
        if live is not None:
            return dict(live.session.environment)
        return {} if resting is None else dict(resting.params.environment)

    async def delete(self, session_id: str, who: Principal) -> None:
        """Delete a session, live or not. Raises `Refused` (not_found)."""
        await self.seen(session_id, who)
        if session_id in self._live:
            await self._close(session_id)
        self._resting.pop(session_id, None)
        try:
            await ask_store(self._store, self._store.delete_session, session_id)
        except LeaseHeld:
            raise Refused("conflict", "another process has the session open") from None

    async def close(self, session_id: str, who: Principal) -> None:
        """Close a live session; its ledger stays in the store."""
        if session_id not in self._live:
            info = await self.seen(session_id, who)
            self._check_change(who, session_id, info.owner)
            if self._resting.pop(session_id, None) is None:
                raise not_open(session_id)
            return
        self.get(session_id, who)
        await self._close(session_id)

    async def close_idle(self) -> None:
        """Let go of the sessions that nobody has used for the idle time: their leases and memory.
        They come back with the next request of their owner.
        """
        idle_seconds = self._config.idle_seconds
        if idle_seconds is None:
            return
        before = self._clock() - idle_seconds
        for session_id, live in list(self._live.items()):
            if live.used_at > before or live.is_in_use:
                continue
            # A request for it waits, instead of finding the lease taken.
            async with self._opening:
                is_idle = live.used_at <= before and not live.is_in_use
                if is_idle and self._live.get(session_id) is live:
                    await self._let_go(live)

    async def _let_go(self, live: LiveSession) -> None:
        session_id = live.session.session_id
        resting = RestingSession(live.opened_by, live.reopen_params)
        self._resting[session_id] = resting
        if len(self._resting) > self._config.max_sessions:
            del self._resting[next(iter(self._resting))]
        try:
            await self._close(session_id)
        except Exception:
            logger.exception("the idle session %s could not be closed", session_id)

    async def _close(self, session_id: str) -> None:
        live = self._live.pop(session_id)
        note_tools(live.session, live.executor.tools)
        self._open_of[live.opened_by.name] -= 1
        if not self._open_of[live.opened_by.name]:
            del self._open_of[live.opened_by.name]
        try:
            await live.close()
        finally:
            await self._servers.unmount(session_id)
        if live.is_temporary:
            await ask_store(self._store, self._delete_unused, live)

    def _delete_unused(self, live: LiveSession) -> None:
        """Delete a session that was made for the moment, unless something happened in it."""
        session = live.session
        if session.last_turn or any(record.call_id is not None for record in session.records()):
            return
        with suppress(LeaseHeld):
            self._store.delete_session(session.session_id)

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
            if await self._info(session_id) is None:
                raise no_session(session_id)
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
        closing = [self._close(session_id) for session_id in list(self._live)]
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
        await self._servers.mount_for(self.get(session_id, who), servers, egress)

    async def facts(self, params: ListSessions, who: Principal) -> Sessions:
        """A page of the sessions of the store that `who` may see, open here or not."""
        return await list_sessions(self._store, params, who, self._state, self._facts)

    async def facts_of(self, session_id: str, who: Principal) -> SessionFacts:
        """The facts of one session of the store. Raises `Refused` (not_found)."""
        info = await self.seen(session_id, who)
        return await ask_store(self._store, self._counted_facts, info)

    def _records(self, session_id: str) -> list[Record]:
        live = self._live.get(session_id)
        return list(live.session.records() if live else self._store.records(session_id))

    def _counted_facts(self, info: SessionInfo) -> SessionFacts:
        counts = self._store.summaries([info.session_id])
        return self._facts(info, counts.get(info.session_id, NO_COUNTS))

    def _facts(self, info: SessionInfo, summary: SessionSummary) -> SessionFacts:
        return session_facts(self._store, info, self._live.get(info.session_id), summary)

    def _state(self, info: SessionInfo) -> SessionState:
        return "open" if info.session_id in self._live else "closed"

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
        self._quotas.check_open(who, self._open_of[who.name])
        session = await self._session(params, who)
        try:
            live = self._live_session(session, params, who, is_new=is_new)
            await live.greet(is_new=is_new)
            await report_tool_changes(live)
            await ask_store(session.store, session.save_settings)
        except BaseException:
            await self._undo_open(session, is_new=is_new)
            raise
        self._live[session.session_id] = live
        self._open_of[who.name] += 1
        self._resting.pop(session.session_id, None)
        # Server tools may have changed while the settings were saved.
        self._servers.refresh(live)
        return live

    async def _undo_open(self, session: Session, *, is_new: bool) -> None:
        await session.close()
        await self._servers.unmount(session.session_id)
        await self._registry.close_session(session.session_id)
        if is_new:
            await ask_store(self._store, self._store.delete_session, session.session_id)

    async def _session(self, params: CreateSession, who: Principal) -> Session:
        config, options = self._config, dict[str, Any]()
        options["cwd"] = params.cwd or config.cwd
        options["environment"] = {**config.environment, **params.environment}
        options["metadata"] = params.metadata
        options["approve_own_calls"] = config.approve_own_calls
        options["owner"] = who.name
        return await open_session(self._store, params.session_id, **options)

    def _live_session(
        self, session: Session, params: CreateSession, who: Principal, *, is_new: bool
    ) -> LiveSession:
        session_id, is_wanted = session.session_id, tool_filter(params)
        known = self._registry.list_tools(session_id=session_id)
        served = self._served.wanted(is_wanted)
        taken = {definition.name for definition in known} | self._served.names
        remote = self._servers.mount(session, taken, is_wanted)
        own = new_client_tools(params.client_tools, taken | remote.tools.keys())
        self._names.at_session(taken | self._registry.names() | self._servers.names())
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
            [*served.of_toolsets.values(), *remote.tools.values(), *own],
            capabilities=params.capabilities,
            is_wanted=is_wanted,
            on_removed=lambda name: self._tool_removed(session_id),
        )
        live = LiveSession(
            session,
            tools,
            self._config,
            client,
            served,
            missing=remote.unavailable,
            own_tools=[tool.name for tool in own],
            opening=SessionOpening(who, params, self._clock()),
        )
        session.attendance = LiveAttendance(live)
        return live

    def _tool_removed(self, session_id: str) -> None:
        """A host tool was removed: a server tool of the same name may take its place."""
        live = self._live.get(session_id)
        if live is not None:
            self._servers.refresh(live)
