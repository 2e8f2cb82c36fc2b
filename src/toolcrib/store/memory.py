"""The memory store: sessions live in this process and die with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import LeaseHeld, LeaseLost, SessionNotFound
from toolcrib.ledger.record import Head, Record, check_follows, end_of
from toolcrib.store.ledger_writer import MemoryLedger, MemoryRecords
from toolcrib.store.memory_inbox import MemoryInbox, Numbered
from toolcrib.store.store import (
    PAGE_SIZE,
    ApprovalFiled,
    ApprovalUsed,
    Artifact,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Commit,
    CommitSource,
    Effect,
    Lease,
    OpenCall,
    SessionInfo,
    SettingsKept,
    StorePage,
    check_end,
)
from toolcrib.store.stored_text import check_new_id

if TYPE_CHECKING:
    from toolcrib.prices.table import Prices
    from toolcrib.store.call_index import CallFold
    from toolcrib.store.call_query import CallQuery, CallRow, Place, PrincipalUse, SumKey, UsageSum
    from toolcrib.store.session_query import SessionQuery, SessionSummary

T = TypeVar("T")


@dataclass(slots=True)
class _Session:
    session_id: str
    created_at: float
    settings: dict[str, Any]
    fence: int
    records: MemoryRecords
    owner: str | None
    is_open: bool = True
    open_calls: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    artifacts: dict[str, Artifact] = field(default_factory=dict[str, Artifact])
    fold: CallFold | None = None

    def call_fold(self, prices: Prices) -> CallFold:
        """The rows of its calls, after the newest record."""
        from toolcrib.store.call_index import CallFold

        fold = self.fold = self.fold or CallFold(self.owner, prices)
        fold.take_all(self.records.read(fold.last_seq))
        return fold

    def info(self) -> SessionInfo:
        return SessionInfo(
            self.session_id,
            self.created_at,
            self.records.head(),
            dict(self.settings),
            self.is_open,
            self.owner,
        )


class MemoryStore(MemoryInbox):
    """The twin of the durable stores: the same rules, nothing on disk."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, prices: Prices | None = None) -> None:
        super().__init__()
        self.clock = clock
        self._own_prices = prices
        self._sessions = Numbered[_Session]()
        # A session made again after its deletion must not honour leases of the deleted one.
        self._fence_floor = 0

    @property
    def is_durable(self) -> bool:
        """Always false."""
        return False

    def acquire(
        self,
        session_id: str,
        *,
        create: bool = True,
        settings: dict[str, Any] | None = None,
        owner: str | None = None,
    ) -> Lease:
        """Become the writer. `settings` and `owner` are kept only when the session is new."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                if not create:
                    raise SessionNotFound(f"there is no session {session_id!r}")
                check_new_id("session", session_id)
                session = _Session(
                    session_id,
                    self.clock(),
                    dict(settings or {}),
                    self._fence_floor + 1,
                    MemoryRecords(session_id),
                    owner,
                )
                self._sessions.put(session_id, session)
            elif session.is_open:
                raise LeaseHeld(f"session {session_id!r} is already open in this process")
            else:
                session.fence += 1
                session.is_open = True
            return Lease(session_id, "this process", session.fence)

    def release(self, lease: Lease) -> None:
        """Stop being the writer; a void lease is ignored."""
        with self._lock:
            session = self._sessions.get(lease.session_id)
            if session is not None and session.fence == lease.fence:
                session.is_open = False

    def is_sure(self, lease: Lease) -> bool:
        """True while the session is open: nobody else can reach it."""
        with self._lock:
            session = self._sessions.get(lease.session_id)
            return session is not None and session.is_open and session.fence == lease.fence

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        """Only a lease that is void is lost, and that at once: nobody takes one in memory."""
        if not self.is_sure(lease):
            on_lost()
        return lambda: None

    def is_gone(self, holder: str) -> bool:
        """Always true: what another process had in memory went with it."""
        return True

    def open_ledger(self, lease: Lease) -> MemoryLedger:
        """A ledger that seals entries only when somebody reads them."""
        with self._lock:
            return MemoryLedger(self._leased_session(lease).records, lease, self._keep_effects)

    def schedule(self, source: CommitSource) -> None:
        """Commit at once: there is nothing to wait for."""
        try:
            self.commit(source.lease, source.drain())
        except Exception as error:
            source.settled(error)
        else:
            source.settled(None)

    def commit(self, lease: Lease, commit: Commit) -> None:
        """Keep records and effects, or neither."""
        with self._lock:
            session = self._leased_session(lease)
            if commit.records:
                seq, previous = end_of(session.records.head())
                check_follows(commit.records, lease.session_id, seq, previous)
            self._apply(session, lease.session_id, commit.effects)
            session.records.extend(commit.records)

    def sessions(
        self,
        query: SessionQuery | None = None,
        *,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[SessionInfo]:
        """The sessions that a query asks for, or every session; oldest first unless it says so."""
        from toolcrib.store.session_query import EVERY_SESSION

        query = query or EVERY_SESSION

        def is_wanted(session: _Session) -> bool:
            return (
                query.owner in (None, session.owner)
                and (query.since is None or session.created_at >= query.since)
                and (query.until is None or session.created_at < query.until)
                and (not query.reads_index or self._is_found(session, query))
            )

        newest_first = query.newest_first
        with self._lock:
            page = self._sessions.page(cursor, limit, is_wanted, newest_first=newest_first)
            return StorePage(tuple(session.info() for session in page.items), page.cursor)

    def summaries(self, session_ids: Collection[str]) -> dict[str, SessionSummary]:
        """The titles and counts of these sessions, as far as they are there."""
        with self._lock:
            known = [(each, self._sessions.get(each)) for each in session_ids]
            return {each: self._summary(session) for each, session in known if session is not None}

    def _summary(self, session: _Session) -> SessionSummary:
        waiting = self._count_pending(session.session_id)
        return session.call_fold(self.prices).count.summary(waiting)

    def _is_found(self, session: _Session, query: SessionQuery) -> bool:
        """Whether a session passes the filters about what happened in it."""
        from toolcrib.store.call_index import is_bare
        from toolcrib.store.session_query import SessionWords

        summary = self._summary(session)
        rows = [row for row in session.call_fold(self.prices).rows if not is_bare(row)]
        words = SessionWords(session.session_id, session.owner, summary.title, session.settings)
        return (
            query.has_failures in (None, summary.failures > 0)
            and query.is_waiting in (None, summary.waiting > 0)
            and (query.tool is None or any(query.is_tool(row.tool) for row in rows))
            and words.have(query.words)
        )

    def session(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        with self._lock:
            return self._known(session_id).info()

    def records(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Records with `after < seq < before`. Raises `SessionNotFound`."""
        with self._lock:
            records = self._known(session_id).records
        # Not under the lock: there may be much to seal first.
        matches = records.read(after, before=before, kinds=kinds, newest_first=newest_first)
        return islice(matches, limit)

    def head(self, session_id: str) -> Head | None:
        """The end of the ledger, None while it is empty. Raises `SessionNotFound`."""
        with self._lock:
            return self._known(session_id).records.head()

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls in the order they were opened."""
        with self._lock:
            session = self._sessions.get(session_id)
            return list(session.open_calls.values()) if session else []

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        """The open call of an id, or the record of its end."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                return None
            call = session.open_calls.get(call_id)
        return call or session.records.end_of_call(call_id)

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        """The text of an artifact."""
        with self._lock:
            session = self._sessions.get(session_id)
            artifact = session.artifacts.get(artifact_id) if session else None
            return artifact.text if artifact else None

    def calls(
        self, query: CallQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[CallRow]:
        """The calls of all sessions that a query asks for; every call is looked at."""
        from toolcrib.store.call_query import page_of

        return page_of(self._placed_rows(), query, cursor, limit)

    def call_sums(self, query: CallQuery, key: SumKey) -> list[UsageSum]:
        """The sums of those calls."""
        from toolcrib.store.call_query import sum_calls

        whole = replace(query, kind=None)
        rows = (row for _, row in self._placed_rows() if row.status != "running")
        return sum_calls((row for row in rows if whole.matches(row)), key)

    def principals(self) -> list[PrincipalUse]:
        """What every principal has left."""
        from toolcrib.store.call_query import counted, uses_of

        with self._lock:
            made = [(each.owner, each.created_at) for _, each in self._sessions.by_id.values()]
        rows = [row for _, row in self._placed_rows() if row.status != "running"]
        asked_for = ((row.principal, row.at) for row in rows if row.kind == "tool")
        return uses_of(counted(made), counted(asked_for))

    @property
    def prices(self) -> Prices:
        """The table that was given, else the published one."""
        from toolcrib.prices.table import published_prices

        return self._own_prices or published_prices()

    def _placed_rows(self) -> list[tuple[Place, CallRow]]:
        from toolcrib.store.call_index import shown_row

        with self._lock:
            sessions = list(self._sessions.by_id.values())
            folds = [(number, session.call_fold(self.prices)) for number, session in sessions]
            return [
                ((row.at, (number << 40) + row.seq), shown_row(row))
                for number, fold in folds
                for row in fold.rows
            ]

    def delete_payloads(self, lease: Lease, up_to: int) -> None:
        """Delete payloads, artifacts and used approvals."""
        with self._lock:
            session = self._leased_session(lease)
            session.call_fold(self.prices).drop(up_to, session.records.read(up_to))
            session.records.drop_payloads(up_to)
            session.artifacts.clear()
            self._forget_used(lease.session_id)

    def delete_session(self, session_id: str, *, last_seq: int | None = None) -> None:
        """Forget a session that nobody writes."""
        with self._lock:
            session = self._known(session_id)
            if session.is_open:
                raise LeaseHeld(f"session {session_id!r} is open; close it before deleting it")
            check_end(session_id, end_of(session.records.head())[0], last_seq)
            self._fence_floor = max(self._fence_floor, session.fence)
            self._forget(session_id)
            self._sessions.remove(lambda other: other is session)

    def close(self) -> None:
        """Nothing to close."""

    def _owner_of(self, session_id: str) -> str | None:
        session = self._sessions.get(session_id)
        return session.owner if session else None

    def _known(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(f"there is no session {session_id!r}")
        return session

    def _leased_session(self, lease: Lease) -> _Session:
        session = self._sessions.get(lease.session_id)
        if session is None or not session.is_open or session.fence != lease.fence:
            raise LeaseLost(f"session {lease.session_id!r} is no longer written by this lease")
        return session

    def _keep_effects(self, lease: Lease, effects: Sequence[Effect]) -> None:
        with self._lock:
            self._apply(self._leased_session(lease), lease.session_id, effects)

    def _apply(self, session: _Session, session_id: str, effects: Sequence[Effect]) -> None:
        self._check_new([e.request for e in effects if isinstance(e, ApprovalFiled)])
        for effect in effects:
            self._apply_one(session, session_id, effect)

    def _apply_one(self, session: _Session, session_id: str, effect: Effect) -> None:
        match effect:
            case CallOpened(call):
                session.open_calls[call.call_id] = call
            case CallClosed(call_id):
                session.open_calls.pop(call_id, None)
            case ApprovalFiled(request):
                self._file(request)
            case ApprovalUsed(approval_id):
                self._use(approval_id, session_id)
            case ArtifactKept(artifact):
                session.artifacts[artifact.artifact_id] = artifact
            case SettingsKept(settings):
                session.settings = dict(settings)
            case _:
                assert_never(effect)
