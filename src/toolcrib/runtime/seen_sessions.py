"""The sessions of a store as a principal may see them, open in this process or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolcrib.errors import LeaseHeld, SessionElsewhere, SessionNotFound
from toolcrib.ledger.record import Record
from toolcrib.runtime.audit_operations import list_sessions
from toolcrib.runtime.messages import (
    ListSessions,
    ResumeSession,
    SessionFacts,
    Sessions,
    SessionState,
)
from toolcrib.runtime.ownership import check_change, may_see, no_session
from toolcrib.runtime.session_setup import session_facts
from toolcrib.session.session import Session
from toolcrib.store.session_query import NO_COUNTS, SessionSummary
from toolcrib.store.shared_store import is_shared
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.store import SessionInfo, Store


@dataclass(frozen=True, slots=True)
class RestingSession:
    """A session that was let go while it was idle, with what it needs to come back as it was."""

    who: Principal
    params: ResumeSession


class SeenSessions:
    """Finds sessions, says what is known of them, and opens one to write to. A part of
    `LiveSessions`.
    """

    _config: RuntimeConfig

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: dict[str, LiveSession] = {}
        self._shared: set[str] = set()
        self._opening = asyncio.Lock()

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(list(self._live.values()))

    def find(self, session_id: str) -> LiveSession | None:
        """A live session; None when it is not open here."""
        return self._live.get(session_id)

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

    async def changeable(self, session_id: str, who: Principal) -> SessionInfo:
        """A session of the store that `who` may change. Raises `Refused`."""
        info = await self.seen(session_id, who)
        self._check_change(who, session_id, info.owner)
        return info

    async def facts(self, params: ListSessions, who: Principal) -> Sessions:
        """A page of the sessions of the store that `who` may see, open here or not."""
        return await list_sessions(self._store, params, who, self._states, self._facts)

    async def facts_of(self, session_id: str, who: Principal) -> SessionFacts:
        """The facts of one session of the store. Raises `Refused` (not_found)."""
        info = await self.seen(session_id, who)
        return await ask_store(self._store, self._counted_facts, info)

    def _records(self, session_id: str) -> list[Record]:
        live = self._live.get(session_id)
        return list(live.session.records() if live else self._store.records(session_id))

    def _counted_facts(self, info: SessionInfo) -> SessionFacts:
        counts = self._store.summaries([info.session_id]).get(info.session_id, NO_COUNTS)
        state = self._states([info])[info.session_id]
        live = self._live.get(info.session_id)
        return self._with_turns(session_facts(self._store, info, live, counts, state))

    def _facts(
        self, info: SessionInfo, summary: SessionSummary, state: SessionState
    ) -> SessionFacts:
        live = self._live.get(info.session_id)
        facts = session_facts(self._store, info, live, summary, state)
        # What runs at another replica is known by its turns alone.
        return self._with_turns(facts) if live is None and state == "open" else facts

    def _with_turns(self, facts: SessionFacts) -> SessionFacts:
        if not is_shared(self._store):
            return facts
        turns = self._store.turns(session_id=facts.session_id)
        # A prompt that gives way while it waits keeps nobody from sending another.
        is_busy = any(turn.state != "waiting" or not turn.gives_way for turn in turns)
        has_open_prompt = facts.has_open_prompt or bool(turns)
        return replace(facts, is_busy=is_busy, has_open_prompt=has_open_prompt)

    def _states(self, infos: Sequence[SessionInfo]) -> Mapping[str, SessionState]:
        """Which sessions are open: in this process, or at any replica of a shared store."""
        ids = [info.session_id for info in infos]
        open_ids = set(self._live)
        if is_shared(self._store) and ids:
            places = self._store.places(ids)
            open_ids.update(each for each in places if places[each].holder is not None)
        return {each: "open" if each in open_ids else "closed" for each in ids}

    async def _info(self, session_id: str) -> SessionInfo | None:
        try:
            return await ask_store(self._store, self._store.session, session_id)
        except SessionNotFound:
            return None

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
                raise SessionElsewhere(
                    "another process has the session open and writes its ledger; decide there, or "
                    "here without a grant"
                ) from None
            try:
                yield session
            finally:
                await session.close()

    def _delete_unused(self, live: LiveSession) -> None:
        """Delete a session that was made for the moment, unless something happened in it."""
        session = live.session
        if session.last_turn or any(record.call_id is not None for record in session.records()):
            return
        with suppress(LeaseHeld):
            self._store.delete_session(session.session_id)
