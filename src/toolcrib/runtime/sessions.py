"""The sessions that a runtime holds: opened, found, forked, closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidTool, LeaseHeld, Refused, SessionNotFound, UsageError
from toolcrib.runtime.client_calls import client_tool
from toolcrib.runtime.held import HeldSession, wanted_by
from toolcrib.runtime.messages import CreateSession, SessionFacts
from toolcrib.runtime.mounting import Mounting
from toolcrib.session.events import SessionOpened
from toolcrib.session.record import events
from toolcrib.session.session import Session
from toolcrib.tools.prepared import as_tool

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.store.store import SessionInfo, Store
    from toolcrib.tools.tool import Tool


class HeldSessions:
    """Opens sessions of the store with their tools, and keeps them by id."""

    def __init__(self, config: RuntimeConfig, store: Store, registry: HostToolRegistry) -> None:
        self._config = config
        self._store = store
        self._mounting = Mounting(registry, lambda: self)
        self._mounting.start()
        self._held: dict[str, HeldSession] = {}
        self._opening = asyncio.Lock()

    def __iter__(self) -> Iterator[HeldSession]:
        return iter(list(self._held.values()))

    def find(self, session_id: str) -> HeldSession | None:
        """A session, if it is open here."""
        return self._held.get(session_id)

    def get(self, session_id: str) -> HeldSession:
        """A session that is open here. Raises `Refused` (not_found)."""
        held = self._held.get(session_id)
        if held is None:
            raise Refused(
                "not_found", f"no session {session_id[:128]!r} is open here; create or resume it"
            )
        return held

    async def create(self, asked: CreateSession) -> HeldSession:
        """Open a new session. Raises `Refused` when the id is taken."""
        if asked.session_id is not None and await self._exists(asked.session_id):
            raise Refused("conflict", f"there is a session {asked.session_id!r} already; resume it")
        return await self._open(asked.session_id, asked)

    async def resume(self, session_id: str) -> HeldSession:
        """Open a session that the store has, or give it as it is when it is open here."""
        if session_id in self._held:
            return self._held[session_id]
        if not await self._exists(session_id):
            raise Refused("not_found", f"there is no session {session_id[:128]!r}")
        return await self._open(session_id, CreateSession(session_id=session_id))

    async def fork(self, session_id: str, new_id: str | None) -> HeldSession:
        """Open a new session that begins with what happened in another one. What waits there waits
        only there: a question is asked once.
        """
        source = (await self.resume(session_id)).session
        asked = CreateSession(
            session_id=new_id,
            cwd=source.cwd,
            environment=dict(source.environment),
            metadata={**source.metadata, "forked_from": session_id},
        )
        held = await self.create(asked)
        new = held.session
        for event in await source.ask_store(lambda: list(events(source.records()))):
            if not isinstance(event, SessionOpened):
                await new.record(replace(event, session_id=new.session_id))
        new.last_turn = source.last_turn
        await new.ask_store(new.save_settings)
        return held

    async def delete(self, session_id: str) -> None:
        """Delete a session, open here or not. Raises `Refused` (not_found)."""
        await self.facts_of(session_id)
        if session_id in self._held:
            await self.close(session_id)
        await asyncio.to_thread(self._store.delete_session, session_id)

    async def close(self, session_id: str) -> None:
        """Let go of a session; what it holds stays in the store."""
        held = self.get(session_id)
        del self._held[session_id]
        await held.close()
        await self._mounting.unmount(session_id)

    async def close_all(self) -> None:
        """Let go of every session."""
        self._mounting.stop()
        for session_id in list(self._held):
            await self.close(session_id)

    async def facts(self) -> list[SessionFacts]:
        """Every session of the store, open here or not."""
        infos = await asyncio.to_thread(self._store.sessions)
        return [self._facts(info) for info in infos]

    async def facts_of(self, session_id: str) -> SessionFacts:
        """One session of the store. Raises `Refused` (not_found)."""
        try:
            info = await asyncio.to_thread(self._store.session, session_id)
        except SessionNotFound:
            raise Refused("not_found", f"there is no session {session_id[:128]!r}") from None
        return self._facts(info)

    def _facts(self, info: SessionInfo) -> SessionFacts:
        held = self._held.get(info.session_id)
        head = held.session.head() if held else self._store.head(info.session_id)
        return SessionFacts(
            session_id=info.session_id,
            state="open" if held else "closed",
            last_seq=head.seq if head else 0,
            turn=held.session.last_turn if held else int(info.settings.get("turn", 0)),
            is_busy=held.slot.is_busy if held else False,
            pending_approvals=len(
                self._store.approvals(session_id=info.session_id, state="pending")
            ),
            cwd=held.session.cwd if held else None,
            metadata=dict(held.session.metadata) if held else {},
            unavailable_tools=dict(held.unavailable) if held else {},
        )

    async def _exists(self, session_id: str) -> bool:
        try:
            await asyncio.to_thread(self._store.session, session_id)
        except SessionNotFound:
            return False
        return True

    async def _open(self, session_id: str | None, asked: CreateSession) -> HeldSession:
        config = self._config
        async with self._opening:
            if len(self._held) >= config.max_sessions:
                raise Refused(
                    "unavailable",
                    f"{config.max_sessions} sessions are open, and no more may be; close one",
                )
            session = await self._session(session_id, asked)
            try:
                held = self._hold(session, asked)
            except BaseException:
                await session.close()
                raise
            self._held[session.session_id] = held
        return held

    async def _session(self, session_id: str | None, asked: CreateSession) -> Session:
        config = self._config
        try:
            return await Session.open(
                self._store,
                session_id,
                cwd=asked.cwd or config.cwd,
                environment={**config.environment, **asked.environment},
                metadata=asked.metadata,
            )
        except LeaseHeld as error:
            raise Refused("conflict", f"another process has the session open: {error}") from None
        except UsageError as error:
            raise Refused("invalid", str(error)) from None

    def _hold(self, session: Session, asked: CreateSession) -> HeldSession:
        mounted = self._mounting.mount(session, asked.capabilities)
        tools = [tool for tool in mounted.tools if wanted_by(asked)(tool.name)]
        brought = self._brought(asked, {tool.name for tool in tools})
        if self._config.on_session is not None:
            self._config.on_session(session)
        return HeldSession(session, [*tools, *brought], self._config, asked, mounted.withheld)

    def _brought(self, asked: CreateSession, taken: set[str]) -> list[Tool[Any, Any]]:
        """The tools that the client brings. None may stand in for one of ours."""
        found: list[Tool[Any, Any]] = []
        for told in asked.client_tools:
            if told.name in taken:
                raise Refused(
                    "conflict", f"the client's tool {told.name!r} has the name of another tool"
                )
            try:
                found.append(as_tool(client_tool(told)))
            except InvalidTool as error:
                raise Refused("invalid", str(error)) from None
            taken.add(told.name)
        return found
