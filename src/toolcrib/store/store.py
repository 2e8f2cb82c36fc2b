"""The seam to storage: the protocol of a store, and the facts that pass through it.

`Store` is composed of small protocols: ledgers, leases, calls, approvals, grants, keys. One rule
binds every store: a commit follows exactly the record at which the ledger ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.approval.decision import Actor, ApprovalRequest, Ballot, Decided
from toolcrib.errors import LeaseHeld
from toolcrib.ledger.record import Head, Record
from toolcrib.store.lease_watch import LeaseStore
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant
    from toolcrib.prices.table import Prices
    from toolcrib.store.approval_query import ApprovalQuery, InboxPage
    from toolcrib.store.call_query import CallQuery, CallRow, PrincipalUse, SumKey, UsageSum
    from toolcrib.store.ledger_writer import Ledger
    from toolcrib.store.session_query import SessionQuery, SessionSummary

T = TypeVar("T")

OpenCallState = Literal["waiting", "started", "deferred", "in_doubt"]
ApprovalState = Literal["pending", "decided", "used"]
TitleSource = Literal["prompt", "call"]
"""What the title of a session is: the words of its first prompt, or the name of its first tool."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has begun and not ended, with its real frozen arguments.

    It lies beside the ledger only while the call is open: the call can go on in another process.
    """

    call_id: str
    tool: ToolRef
    arguments: bytes = field(repr=False)
    digest: str
    state: OpenCallState
    created_at: float
    has_secrets: bool = False
    approval_id: str | None = None
    parent_call_id: str | None = None
    depth: int = 0
    turn: int = 0
    attempt: int = 0
    was_edited: bool = False
    decided: Decided | None = None
    """The decision that was taken and has not been acted on yet."""
    submitted: bytes | None = field(default=None, repr=False)
    """The JSON that the frozen arguments were made from, where it is another."""
    caller: Caller = NOBODY
    """Who asked for the call."""
    tool_parts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parts of the tool's identity, to say what changed when the call is taken up."""
    request_digest: str | None = None
    """What they asked for, when they gave the call its id."""
    process: str | None = None
    """The holder of the lease under which it was started last."""
    may_run_until: float | None = None
    """When its handler must have ended; None for one in doubt whose process certainly has."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A whole result, saved when the model sees only a part of it."""

    artifact_id: str
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallOpened:
    """Save this open call, in place of an earlier state of the same call."""

    call: OpenCall
    must_survive: bool = False
    """True when a power cut must not undo it: what follows may take effect, and must not be done
    again by somebody who does not know of it.
    """


@dataclass(frozen=True, slots=True)
class CallClosed:
    """Erase the open call of this id."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ApprovalFiled:
    """Put a request into the inbox."""

    request: ApprovalRequest


@dataclass(frozen=True, slots=True)
class ApprovalUsed:
    """The decision on this approval has been acted on and cannot be used again."""

    approval_id: str


@dataclass(frozen=True, slots=True)
class ArtifactKept:
    """Save this artifact."""

    artifact: Artifact


@dataclass(frozen=True, slots=True)
class SettingsKept:
    """Replace the settings of the session."""

    settings: dict[str, Any]


Effect = CallOpened | CallClosed | ApprovalFiled | ApprovalUsed | ArtifactKept | SettingsKept
"""What becomes durable in the same transaction as a record."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Records and effects of one session that become durable together, or not at all."""

    records: Sequence[Record]
    effects: Sequence[Effect]


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The use of an idempotency key, and what came of it. It goes with its session."""

    principal: str
    operation: str
    key: str
    params_digest: str
    session_id: str
    created_at: float
    after_turn: int = 0
    """The last turn of the session before the work began."""
    outcome: bytes | None = None
    """JSON; None until the work has ended."""
    holder: str | None = None
    """The replica that does the work, on a shared store."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one session. A larger `fence` makes every smaller one void."""

    session_id: str
    holder: str
    fence: int


@dataclass(frozen=True, slots=True)
class FiledApproval:
    """A request in the inbox with what has become of it."""

    request: ApprovalRequest
    state: ApprovalState
    decided: Decided | None
    ballot: Ballot | None = None
    """The votes so far, while the request is pending and needs more than there are."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as listings show it; `is_open` while a live process holds the lease."""

    session_id: str
    created_at: float
    head: Head | None
    settings: dict[str, Any]
    is_open: bool
    owner: str | None = None
    """The principal that made it; None when the process itself did."""


class CommitSource(Protocol):
    """A ledger with appended entries that a durable store should commit soon."""

    @property
    def lease(self) -> Lease: ...

    def drain(self) -> Commit:
        """Seal and hand over everything appended so far. Called by the store's writer."""
        ...

    def settled(self, error: BaseException | None) -> None:
        """The last drained commit is durable, or failed with `error`."""
        ...


PAGE_SIZE = 100
"""How many items a page of a listing has unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class StorePage(Generic[T]):
    """A part of a listing. `cursor` asks for the part after it; None is the end.

    A cursor means something only to its store. Items that are added or deleted between two pages
    make no other item appear twice or not at all.
    """

    items: tuple[T, ...]
    cursor: str | None


def every(read: Callable[[str | None], StorePage[T]]) -> Iterator[T]:
    """All items of a listing, page by page."""
    cursor = None
    while True:
        page = read(cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return


class LedgerStore(Protocol):
    """Sessions, who writes them, and their ledgers."""

    def acquire(
        self,
        session_id: str,
        *,
        create: bool = True,
        settings: dict[str, Any] | None = None,
        owner: str | None = None,
    ) -> Lease:
        """Become the writer. `settings` and `owner` are saved only when the session is new.

        Raises `LeaseHeld` while another live process is the writer, and `SessionNotFound` when
        there is no such session and `create` is false.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Stop being the writer. Releasing a lease that is already void does nothing."""
        ...

    def open_ledger(self, lease: Lease) -> Ledger:
        """The writing end of the session's ledger; one per lease.

        A durable store returns `DurableLedger(self, lease)`, which needs `schedule` and `commit`.
        """
        ...

    def schedule(self, source: CommitSource) -> None:
        """Commit what `source` holds soon, together with whatever else is waiting."""
        ...

    def commit(self, lease: Lease, commit: Commit) -> None:
        """Make a commit durable now, after everything that was scheduled before it.

        Raises `LeaseLost` when the lease is void, and `LedgerBroken` when the records do not
        follow the last one.
        """
        ...

    def sessions(
        self,
        query: SessionQuery | None = None,
        *,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[SessionInfo]:
        """The sessions that a query asks for, or every session; oldest first unless it says so."""
        ...

    def summaries(self, session_ids: Collection[str]) -> dict[str, SessionSummary]:
        """The titles and counts of these sessions, as far as they are there, by an index."""
        ...

    def session(self, session_id: str) -> SessionInfo:
        """Raises `SessionNotFound`."""
        ...

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
        """Records with `after < seq < before`, at most `limit`, of these event kinds or of all.

        Records are read as the iterator advances: a reader that stops early has not loaded the
        rest. Raises `SessionNotFound`.
        """
        ...

    def head(self, session_id: str) -> Head | None:
        """The end of the ledger, None while it is empty. Raises `SessionNotFound`."""
        ...

    def delete_payloads(self, lease: Lease, up_to: int) -> None:
        """Delete the payloads of records up to this number, all artifacts and used approvals.

        The records, their digests and the chain stay. A record that says so is written before.
        """
        ...

    def delete_session(self, session_id: str, *, last_seq: int | None = None) -> None:
        """Delete everything of a session. Raises `LeaseHeld` while somebody writes it, and when its
        ledger does not end at `last_seq` any more.

        No lease of the deleted session is valid for a later one of the same id.
        """
        ...


class CallStore(Protocol):
    """What lies beside the ledgers, written by the effects of commits."""

    def open_calls(self, session_id: str) -> list[OpenCall]:
        """Open calls in the order they were opened. A session has few at a time."""
        ...

    def known_call(self, session_id: str, call_id: str) -> OpenCall | Record | None:
        """The open call of an id, or the record of its end; None when there is neither. Takes no
        longer in a long ledger than in a short one.
        """
        ...

    def artifact(self, session_id: str, artifact_id: str) -> str | None:
        """The text of an artifact; None when there is none."""
        ...

    def calls(
        self, query: CallQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[CallRow]:
        """The calls of all sessions that a query asks for. Raises `UsageError` for a cursor that is
        none of this store.
        """
        ...

    def call_sums(self, query: CallQuery, key: SumKey) -> list[UsageSum]:
        """The sums of those calls. Calls that run are not in them."""
        ...

    def principals(self) -> list[PrincipalUse]:
        """What every principal that has a session or a call has left, by name."""
        ...


class ApprovalStore(Protocol):
    """The inbox: approval requests of all sessions, filed and used by the effects of commits."""

    def approvals(
        self,
        *,
        session_id: str | None = None,
        owner: str | None = None,
        state: ApprovalState | None = None,
        cursor: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> StorePage[FiledApproval]:
        """The inbox, oldest first; across all sessions, or those of a principal, when
        `session_id` is None.
        """
        ...

    def inbox(
        self, query: ApprovalQuery, *, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> InboxPage:
        """The requests that a query asks for. Raises `UsageError` for a cursor that is none."""
        ...

    def inbox_marks(self, query: ApprovalQuery) -> dict[str, object]:
        """The ids of those requests, each with a value that changes when somebody votes."""
        ...

    def inbox_version(self) -> int:
        """A number that changes whenever the inbox may have changed, by whichever process."""
        ...

    def approval(self, approval_id: str) -> FiledApproval | None:
        """One request; None when there is none."""
        ...

    def decide(self, decided: Decided) -> bool:
        """Record a decision if the approval is still pending and its digest is the decision's.

        Compare-and-swap: of several deciders exactly one gets True. An approval by several votes
        is recorded only if its ballot has exactly the votes before the last one.
        """
        ...

    def vote(self, approval_id: str, digest: str, ballot: Ballot, *, after: Ballot | None) -> bool:
        """Record the votes for a pending request of this digest if its ballot is still `after`.

        Compare-and-swap: of several voters at once exactly one gets True.
        """
        ...

    def expire(self, now: float) -> None:
        """Record as expired every grant and every pending request whose time is over at `now`. A
        clock that is set back afterwards revives none of them.
        """
        ...


class GrantStore(Protocol):
    """Standing permissions."""

    def add_grant(self, grant: Grant) -> None:
        """Save a new grant. Raises `StoreError` when its id is taken."""
        ...

    def grants(
        self, *, tool_id: str | None = None, cursor: str | None = None, limit: int = PAGE_SIZE
    ) -> StorePage[Grant]:
        """All grants, oldest first, revoked and expired ones too."""
        ...

    def grant(self, grant_id: str) -> Grant | None:
        """One grant; None when there is none."""
        ...

    def use_grant(self, grant_id: str, now: float) -> bool:
        """Take one use if the grant is live; racing users never take more than are left."""
        ...

    def revoke_grant(self, grant_id: str, now: float, by: Actor) -> bool:
        """Record who revokes a grant; True when it was live until now."""
        ...


class KeyStore(Protocol):
    """Idempotency keys that were used."""

    def claim_key(self, claim: KeyClaim) -> KeyClaim | None:
        """Save a claim unless there is one of the same principal, operation and key; returns that.

        Of several claimants exactly one gets None. On a shared store one of them becomes the holder
        of an unsettled claim with the same parameters once its holder is gone.
        """
        ...

    def settle_key(self, claim: KeyClaim) -> None:
        """Save the outcome of a claim, None for none, and that nobody holds it any more."""
        ...

    def release_key(self, claim: KeyClaim) -> None:
        """Forget a claim: nothing was done. One that got another holder meanwhile stays."""
        ...

    def forget_keys(self, lease: Lease) -> None:
        """Forget every claim in a session, with what came of it."""
        ...


class Store(LedgerStore, LeaseStore, CallStore, ApprovalStore, GrantStore, KeyStore, Protocol):
    """Where sessions live. Every method may be called from any thread. The rest of the package uses
    nothing of a store beyond this.
    """

    @property
    def is_durable(self) -> bool:
        """True when what is committed survives the process. Such a store is asked in threads."""
        ...

    @property
    def prices(self) -> Prices:
        """The table by which requests to models and provider-run calls are priced."""
        ...

    def close(self) -> None:
        """Commit what is scheduled, release every lease and let go of the storage."""
        ...


def check_end(session_id: str, seq: int, last_seq: int | None) -> None:
    """Refuse to delete a session whose ledger went on after `last_seq`."""
    if last_seq is not None and seq != last_seq:
        raise LeaseHeld(f"session {session_id!r} has gone on since; it is not deleted")


async def ask_store(store: Store, function: Callable[..., T], *args: Any) -> T:
    """Run a function that reads or writes the store, in a thread when it may touch a disk."""
    if not store.is_durable:
        return function(*args)
    return await asyncio.to_thread(function, *args)
