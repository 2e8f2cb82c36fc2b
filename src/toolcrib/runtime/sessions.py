"""The live sessions of a runtime: opened from the store with their tools, found, forked, closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib.errors import LeaseHeld, LeaseLost, Refused, SessionElsewhere
from toolcrib.host_tools.session_tools import SessionTools
from toolcrib.runtime.attached_clients import AttachedClients
from toolcrib.runtime.client_tools import (
    ClientCalls,
    admit_client_tools,
    check_client_owner,
    new_client_tools,
    update_client_tools,
)
from toolcrib.runtime.declared_params import DeclaredParams, with_declared
from toolcrib.runtime.lease_loss import when_lost
from toolcrib.runtime.live_session import LiveAttendance, LiveSession, SessionOpening
from toolcrib.runtime.messages import (
    CreateSession,
    ResumeSession,
    SessionFacts,
)
from toolcrib.runtime.ownership import (
    check_new_id,
    may_see,
    no_session,
    not_open,
    owner_of,
)
from toolcrib.runtime.seen_sessions import RestingSession, SeenSessions
from toolcrib.runtime.session_setup import (
    copy_history,
    fork_params,
    note_tools,
    open_session,
    reopen_params,
    report_tool_changes,
    resume_params,
    setup_json,
    setup_of,
    tool_filter,
)
from toolcrib.session.session import Session, union
from toolcrib.store.shared_store import is_held_elsewhere, is_shared, tell_followers
from toolcrib.store.store import ask_store
from toolcrib.store.verification import check_last_record

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.attached_clients import ClientLink
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.gateway_credentials import GatewayCredentials
    from toolcrib.runtime.name_check import NameCheck
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.quotas import Quotas
    from toolcrib.runtime.served_tools import ServedTools
    from toolcrib.store.store import Lease, SessionInfo, Store

logger = logging.getLogger(__name__)


class LiveSessions(SeenSessions):
    """The sessions that are open in this process, by id: opened with their tools, found, closed."""

    def __init__(
        self,
        config: RuntimeConfig,
        store: Store,
        registry: HostToolRegistry,
        served: ServedTools,
        names: NameCheck,
        quotas: Quotas,
        gateway: GatewayCredentials,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store)
        self._config = config
        self._names = names
        self._quotas = quotas
        self._clock = clock
        self._open_of: Counter[str] = Counter()
        """How many live sessions each principal has opened."""
        self._resting: dict[str, RestingSession] = {}
        self._declared = DeclaredParams(store) if is_shared(store) else None
        """What clients have declared, for the next replica; None unless the store is shared."""
        self.clients = AttachedClients(store)
        self._claimed: dict[str, Lease] = {}
        """Leases that turns brought, of sessions that nobody has opened yet."""
        self._registry = registry
        self._served = served
        self.servers = self._servers = gateway.mount(config.mcp_servers, lambda: self)

    def reconfigure(self, config: RuntimeConfig, served: ServedTools, names: NameCheck) -> None:
        """Use another configuration: its policy, approver and hooks in the open sessions too, the
        rest in those that are opened from now on.
        """
        for live in self:
            live.reconfigure(config)
        self._config, self._served, self._names = config, served, names

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
        """`get`, and a session that was let go while it was idle is opened again for its owner. On
        a store that several share, so is one that nobody has open.
        """
        live = self._live.get(session_id)
        if live is not None and live.session.owner == who.name:
            live.used_at = self._clock()
            return live
        if live is None or not self._sees(who, session_id, live.session.owner):
            # The same read for a session that is not there and for one of somebody else.
            info = await self.seen(session_id, who)
            resting = self._resting.get(session_id)
            may_wake = info.owner == who.name or who.may("admin") or session_id in self._shared
            if not may_wake or (resting is None and self._declared is None):
                raise not_open(session_id)
            if resting is not None:
                await self.resume(resting.params, resting.who)
            else:
                opener = who if info.owner == who.name else owner_of(info)
                await self.resume(ResumeSession(session_id=session_id), opener)
        return self.get(session_id, who, to_change=to_change)

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
        await self._servers.ready(who.name)
        async with self._opening:
            session_id = params.session_id
            if session_id is not None and await self._info(session_id) is not None:
                raise Refused("conflict", f"there is a session {session_id!r} already; resume it")
            live = await self._open(params, who, is_new=True)
            if self._declared is not None:
                await self._keep_declared(self._declared, live, params, who)
            return live

    async def _keep_declared(
        self, declared: DeclaredParams, live: LiveSession, params: CreateSession, who: Principal
    ) -> None:
        session_id = live.session.session_id
        try:
            await declared.add(session_id, params, who)
        except BaseException:
            await self._close(session_id)
            await ask_store(self._store, self._store.delete_session, session_id)
            raise

    async def created(self, params: CreateSession, who: Principal) -> SessionFacts | None:
        """The session that these parameters made, open again unless another replica has it open;
        None when there is none.
        """
        session_id = params.session_id
        info = None if session_id is None else await self._info(session_id)
        if session_id is None or info is None or not may_see(who, info.owner):
            return None
        if session_id not in self._live:
            if await ask_store(self._store, is_held_elsewhere, self._store, session_id):
                return await self.facts_of(session_id, who)
            await self.resume(resume_params(session_id, params), who)
        return await self.facts_of(session_id, who)

    async def resume(self, params: ResumeSession, who: Principal) -> LiveSession:
        """Open a session of the store. A live session stays as it is and gets the client tools."""
        self._config.callers_choose.check_environment(params.environment, who)
        await admit_client_tools(params.client_tools)
        await self._servers.ready(who.name)
        async with self._opening:
            info = await self.seen(params.session_id, who)
            self._check_change(who, params.session_id, info.owner)
            live = self._live.get(params.session_id)
            if live is not None and not self._store.is_sure(live.session.lease):
                # It is about to be closed here: it would be of no use to whoever asks for it.
                await self.give_up(live)
                live = None
            if live is None:
                return await self._reopen(info, params, who)
        update_client_tools(live, params.client_tools, who)
        if params.capabilities:
            live.tools.set_capabilities(params.capabilities)
        live.note_declared(params)
        if self._declared is not None:
            await self._declared.add(params.session_id, params, who)
        return live

    async def _reopen(
        self, info: SessionInfo, params: ResumeSession, who: Principal
    ) -> LiveSession:
        setup = setup_of(info.settings)
        if self._declared is None:
            return await self._open(reopen_params(setup, params), who, is_new=False)
        declared = await self._declared.add(params.session_id, params, who)
        params = with_declared(params, declared)
        live = await self._open(reopen_params(setup, params), who, is_new=False)
        if declared.tools_of is not None:
            live.client.belong_to(declared.tools_of)
        return live

    async def fork(self, session_id: str, new_id: str | None, who: Principal) -> LiveSession:
        """Open a new session that begins with the history of another one, live or not."""
        check_new_id(new_id, who)
        info, source = await self.seen(session_id, who), self._live.get(session_id)
        self._check_change(who, session_id, info.owner)
        records = await ask_store(self._store, self._records, session_id)
        environment = await self._environment_of(session_id)
        live = await self._create(fork_params(info, new_id, environment), who)
        # At once: nobody may call in the fork before it asks about what its source asks about.
        saved = info.settings.get("need_user_approve_tools", ())
        listed = source.session.need_user_approve_tools if source else saved
        own = live.session.need_user_approve_tools
        live.session.need_user_approve_tools = union(own, listed)
        turn = source.session.last_turn if source else int(info.settings.get("turn", 0))
        await copy_history(live.session, session_id, records, turn)
        return live

    async def _environment_of(self, session_id: str) -> dict[str, str]:
        """The environment of a session that is open here or was let go; it is not in the ledger."""
        live, resting = self._live.get(session_id), self._resting.get(session_id)
        if live is not None:
            return dict(live.session.environment)
        if self._declared is not None:
            return dict((await self._declared.of(session_id)).environment)
        return {} if resting is None else dict(resting.params.environment)

    async def delete(self, session_id: str, who: Principal) -> None:
        """Delete a session, live or not. Raises `Refused` (not_found)."""
        await self.seen(session_id, who)
        if (live := self._live.get(session_id)) is not None:
            live.is_over = True
            await self._close(session_id)
        self.clients.detach(session_id)
        self._resting.pop(session_id, None)
        try:
            await ask_store(self._store, self._store.delete_session, session_id)
        except LeaseHeld:
            raise SessionElsewhere from None
        tell_followers(self._store, session_id)

    async def close(self, session_id: str, who: Principal) -> None:
        """Close a live session; its ledger stays in the store."""
        if session_id not in self._live:
            info = await self.seen(session_id, who)
            self._check_change(who, session_id, info.owner)
            if self._resting.pop(session_id, None) is None and self._declared is None:
                raise not_open(session_id)
            return
        self.get(session_id, who).is_over = True
        self.clients.detach(session_id)
        await self._close(session_id)

    async def attach(
        self, session_id: str, link: ClientLink, who: Principal, *, takes_over: bool = False
    ) -> Callable[[], None]:
        """Attach a client that runs the client tools of a session; returns the function that
        detaches it. The session is opened here if nobody has it open; on a store that several share
        another replica may have. Raises `Refused`.
        """
        try:
            owner = (await self.wake(session_id, who)).client.owner
        except SessionElsewhere:
            if self._declared is None:
                raise
            await self.changeable(session_id, who)
            owner = (await self._declared.of(session_id)).tools_of
        check_client_owner(owner, who, "run the client tools of")
        return await self.clients.attach(session_id, link, who.name, owner, takes_over=takes_over)

    async def close_idle(self) -> None:
        """Let go of the sessions that nobody has used for the idle time: their leases and memory.
        They come back with the next request of their owner.
        """
        idle_seconds = self._config.idle_after(is_shared=self._declared is not None)
        if idle_seconds is not None:
            await self.let_go_unused(idle_seconds)

    async def let_go_unused(self, seconds: float) -> None:
        """Let go of the sessions that nobody has used for so many seconds."""
        before = self._clock() - seconds
        for live in list(self._live.values()):
            if live.used_at <= before:
                await self.let_go(live, unused_since=before)

    async def let_go(self, live: LiveSession, *, unused_since: float | None = None) -> None:
        """Let go of a session, unless something uses it or has used it since."""
        if live.is_in_use:
            return
        # A request for it waits, instead of finding the lease taken.
        async with self._opening:
            is_idle = unused_since is None or live.used_at <= unused_since
            is_here = self._live.get(live.session.session_id) is live
            if is_here and is_idle and not live.is_in_use:
                await self._let_go(live)

    def claimed(self, lease: Lease) -> None:
        """This process got the lease of a session with one of its turns: whoever opens the session
        next takes it.
        """
        self._claimed[lease.session_id] = lease

    def disclaim(self, lease: Lease) -> None:
        """The turn that brought a lease is settled, or left to others."""
        if self._claimed.get(lease.session_id) == lease:
            del self._claimed[lease.session_id]

    async def open_claimed(self, session_id: str) -> LiveSession:
        """The session of a claimed turn, opened under its lease unless it is open. Raises `Refused`
        and what a store raises; the lease stays then.
        """
        await self._servers.ready_for(lambda: self._info(session_id))
        async with self._opening:
            live = self._live.get(session_id)
            if live is not None:
                return live
            info = await ask_store(self._store, self._store.session, session_id)
            await ask_store(self._store, check_last_record, self._store, info)
            who = owner_of(info)
            resting = self._resting.get(session_id)
            declared = ResumeSession(session_id=session_id) if resting is None else resting.params
            return await self._reopen(info, declared, who)

    async def close_claimed(
        self,
        live: LiveSession,
        settle: Callable[[bool], Awaitable[None]],
        *,
        even_used: bool = False,
    ) -> None:
        """Let `settle` say what became of a turn, and whether it releases the lease: unless
        somebody else uses the session by now, or (but with `even_used`) has since it was opened.
        """
        async with self._opening:
            is_here = self._live.get(live.session.session_id) is live
            is_used = live.is_in_use or (live.used_at > live.opened_at and not even_used)
            if not is_here or is_used:
                await settle(False)
                return
            await self._let_go(live, releases=False)
            await settle(True)

    async def give_up(self, live: LiveSession) -> None:
        """Leave a session to others at once: whatever runs in it here ends."""
        if self._live.get(live.session.session_id) is live:
            await self._let_go(live)

    async def _let_go(self, live: LiveSession, *, releases: bool = True) -> None:
        session_id = live.session.session_id
        if self._declared is None:
            self._resting[session_id] = RestingSession(live.opened_by, live.reopen_params)
            if len(self._resting) > self._config.max_sessions:
                del self._resting[next(iter(self._resting))]
        try:
            await self._close(session_id, releases=releases)
        except LeaseLost as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("session %s was let go and could not be closed", session_id)

    async def _close(self, session_id: str, *, releases: bool = True) -> None:
        live = self._live.pop(session_id)
        note_tools(live.session, live.executor.tools)
        self._open_of[live.opened_by.name] -= 1
        if not self._open_of[live.opened_by.name]:
            del self._open_of[live.opened_by.name]
        try:
            await live.close(releases=releases)
        finally:
            await self._servers.unmount(session_id)
        if live.is_temporary:
            await ask_store(self._store, self._delete_unused, live)
        tell_followers(self._store, session_id)

    async def close_all(self) -> None:
        """Close every session. One that fails to close does not keep the others open."""
        closing = [self._close(session_id) for session_id in list(self._live)]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                logger.error("a session could not be closed", exc_info=error)
        await self._servers.close()

    async def mount_servers(
        self, session_id: str, servers: Sequence[McpServerConfig], who: Principal
    ) -> None:
        """Mount the MCP servers of a client in its live session. An admin speaks for the host and
        may name any address; the addresses of others are bound by the egress policy.
        """
        egress = None if who.may("admin") else self._config.egress
        await self._servers.mount_for(self.get(session_id, who), servers, egress)

    async def _open(self, params: CreateSession, who: Principal, *, is_new: bool) -> LiveSession:
        max_sessions = self._config.max_sessions
        if len(self._live) >= max_sessions:
            raise Refused(
                "unavailable", f"the maximum of {max_sessions} sessions is open; close one"
            )
        lease = self._claimed.pop(params.session_id or "", None)
        if lease is None:
            self._quotas.check_open(who, self._open_of[who.name])
        try:
            session = await open_session(self._store, params, self._config, who.name, lease)
        except BaseException:
            self._give_back(lease)
            raise
        try:
            live = self._live_session(session, params, who, is_new=is_new)
            await live.greet(is_new=is_new)
            await report_tool_changes(live)
            await ask_store(session.store, session.save_settings)
        except BaseException:
            await self._undo_open(session, is_new=is_new, releases=lease is None)
            self._give_back(lease)
            raise
        self._live[session.session_id] = live
        when_lost(live, self.give_up)
        self._open_of[who.name] += 1
        self._resting.pop(session.session_id, None)
        # Server tools may have changed while the settings were saved.
        self._servers.refresh(live)
        tell_followers(self._store, session.session_id)
        return live

    def _give_back(self, lease: Lease | None) -> None:
        """Leave a claimed lease to the next who opens its session. One that was lost meanwhile must
        not take the place of the lease under which this process has claimed the turn again.
        """
        if lease is not None:
            self._claimed.setdefault(lease.session_id, lease)

    async def _undo_open(self, session: Session, *, is_new: bool, releases: bool) -> None:
        await session.close(releases=releases)
        await self._servers.unmount(session.session_id)
        await self._registry.close_session(session.session_id)
        if is_new:
            await ask_store(self._store, self._store.delete_session, session.session_id)

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
        client = ClientCalls(session_id, self.clients)
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
            on_removed=lambda name: self._servers.name_freed(session_id),
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
