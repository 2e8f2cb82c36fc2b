"""The seam to a store that several machines share: replicas, turns, hints and shared values beside
what every store has.

The tables are the truth, and every query reads them as they are: a hint only says when it is worth
looking again. Time is the database's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeGuard

from toolcrib.store.store import Lease, Store

TurnState = Literal["queued", "running", "waiting", "ended"]
QueueRule = Literal["reject", "enqueue", "interrupt"]
"""What becomes of a turn that is queued while another one of its session has not ended."""
HintTopic = Literal["turn", "decision", "cancel", "events", "value"]


@dataclass(frozen=True, slots=True)
class Replica:
    """A process that shares the store. One that is started again is another replica."""

    replica_id: str
    address: str | None
    """The base URL at which other replicas reach it; None when it takes no requests."""
    version: str
    started_at: float
    expires_at: float
    """When it counts as gone, unless it renews its row before."""


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Where a session is open, and how far its ledger goes."""

    number: int
    """Which session it is: one that is made under the id of a deleted one has another."""
    last_seq: int
    holder: Replica | None = None
    """As `ReplicaStore.holder` says it."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Something may have changed. Hints are joined, late or lost; nothing depends on one."""

    topic: HintTopic
    subject: str
    """The session id; for a shared value, its name."""


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A prompt that was accepted, until its turn has ended."""

    turn_id: str
    session_id: str
    request: bytes = field(repr=False)
    """JSON that the runtime wrote: the prompt, who sent it, and how. Empty once it has ended."""
    state: TurnState = "queued"
    created_at: float = 0.0
    wake_at: float | None = None
    """When a turn that waits is due although nobody has decided: the next deadline."""
    pending: tuple[str, ...] = ()
    """The approval requests that it waits for."""
    outcome: bytes | None = field(default=None, repr=False)
    """JSON: the result so far, once the turn waits or has ended."""
    failures: int = 0
    """How often a replica could not run it, since it last waited or began. A replica that died is
    none: the turn is not to blame."""
    gives_way: bool = False
    """Whether another prompt takes its place while it waits, rather than being refused."""
    is_kept: bool = False
    """Whether it stays for as long as the keys of its session, for a request that is repeated under
    its own: until the session is deleted, or its payloads are."""
    cancelled_by: str | None = None
    """The principal that cancelled it. It is due then, and ends without an answer."""


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn that this replica may advance, with the lease of its session."""

    turn: QueuedTurn
    lease: Lease
    was_held: bool = False
    """Whether this replica had the lease already: somebody here has the session open."""


@dataclass(frozen=True, slots=True)
class SharedValue:
    """A small value that replicas share, with the number of its last change."""

    name: str
    body: bytes = field(repr=False)
    version: int = 1
    expires_at: float | None = None
    is_secret: bool = False
    """Whether it is encrypted in the store; a store without a key refuses to save it."""


class ReplicaStore(Protocol):
    """Who shares the store, and where each session is open."""

    @property
    def replica_id(self) -> str:
        """The id of this process among those that share the store."""
        ...

    def join(self, address: str | None) -> Replica:
        """Say where other replicas reach this one. Its row is renewed until the store closes."""
        ...

    def replicas(self) -> list[Replica]:
        """The replicas whose rows have not expired."""
        ...

    def holder(self, session_id: str) -> Replica | None:
        """The replica that has the session open; None when nobody has, or when its row expired."""
        ...

    def places(self, session_ids: Collection[str]) -> Mapping[str, SessionPlace]:
        """Where these sessions are, in one query; those that do not exist are left out."""
        ...


class TurnStore(Protocol):
    """Turns that were accepted. A session has at most one that runs or waits; those behind it are
    queued. A turn is kept for some time after its end.
    """

    def queue_turn(
        self, turn: QueuedTurn, *, when_busy: QueueRule, most_queued: int, by: str
    ) -> QueuedTurn | None:
        """Make a turn durable behind those of its session that have not ended. Returns it, or the
        turn that was queued under its id before; None when the session is busy: always with
        `reject`, with `enqueue` when `most_queued` are queued. With `interrupt`, and where the
        turn that waits gives way, the others are cancelled, by the principal `by`.

        Raises `SessionNotFound`.
        """
        ...

    def claim_turns(
        self,
        limit: int,
        *,
        session_id: str | None = None,
        only_open: bool = False,
    ) -> Sequence[ClaimedTurn]:
        """Become the writer of sessions whose first turn is due, and take the turns up.

        Due is a turn that is queued, one that runs at a replica that is gone, and one that waits
        once a request that it waits for is decided, its `wake_at` has passed or it is cancelled.
        Of several replicas that claim at once, one gets each turn. A session that this replica has
        open keeps its lease. The replica runs what it has claimed until it settles or leaves it.

        A request that was withdrawn counts as decided. With `only_open`, only turns of sessions
        that this replica has open are taken up.
        """
        ...

    def due_turns(self, limit: int) -> Sequence[str]:
        """The ids of sessions that have a turn `claim_turns` would take up now, the longest due
        first. Nothing is claimed: an engine outside the store tells it to whoever will.
        """
        ...

    def settle_turn(
        self,
        claimed: ClaimedTurn,
        settled: QueuedTurn,
        *,
        releases: bool = True,
        pause_seconds: float = 0.0,
    ) -> None:
        """Save what has become of a claimed turn and release its lease, in one transaction. It is
        due again after `pause_seconds` at the earliest. Raises `LeaseLost` when the lease is void.
        """
        ...

    def leave_turn(self, claimed: ClaimedTurn, *, pause_seconds: float = 0.0) -> None:
        """Stop running a claimed turn without saying what became of it: it is due again after the
        pause as soon as its lease is free, and at this replica also while it is not. A turn that
        needs a pause has failed.
        """
        ...

    def cancel_turn(self, session_id: str, by: str) -> QueuedTurn | None:
        """Let the first turn of a session that has not ended be cancelled by whoever runs it; None
        when there is none.
        """
        ...

    def cancelled_turns(self) -> list[QueuedTurn]:
        """The turns that run at this replica and were cancelled."""
        ...

    def turns(
        self, *, session_id: str | None = None, turn_ids: Collection[str] = ()
    ) -> list[QueuedTurn]:
        """The turns of these ids, also those that have ended; or those of a session that have not
        ended. In order.
        """
        ...

    def last_turn(self, session_id: str) -> QueuedTurn | None:
        """The newest turn of a session, also when it has ended; None when it had none lately."""
        ...

    def prune_turns(self, before: float) -> None:
        """Delete turns that ended before this time and are not kept."""
        ...


class HintBus(Protocol):
    """Hints from replica to replica."""

    def hint(self, hint: Hint) -> None:
        """Send a hint soon, together with others. Does not wait."""
        ...

    def on_hint(self, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `listener`, in a thread of the store, for the hints of all replicas, this one
        included; returns the function that ends it.
        """
        ...


class ValueStore(Protocol):
    """Small values that replicas share, such as tokens and the sessions of MCP clients."""

    def value(self, name: str) -> SharedValue | None:
        """The value of a name; None when there is none, or when it has expired."""
        ...

    def values(self, prefix: str) -> list[SharedValue]:
        """The values whose names begin so."""
        ...

    def put_value(self, value: SharedValue, *, after: int | None) -> bool:
        """Save a value if the saved one has the version `after`, or, with None, if there is none.
        Compare-and-swap: of several writers at once exactly one gets True.
        """
        ...

    def delete_value(self, name: str) -> None:
        """Delete a value; nothing happens when there is none."""
        ...


class SharedStore(Store, ReplicaStore, TurnStore, HintBus, ValueStore, Protocol):
    """A store that several machines share."""

    @property
    def is_shared(self) -> Literal[True]: ...

    def derived_keys(self, purpose: str) -> Sequence[bytes]:
        """Keys for a purpose, the same at every replica that has the store's keys: the first one
        signs, all of them verify. Raises `UsageError` without a key.
        """
        ...


def is_shared(store: Store) -> TypeGuard[SharedStore]:
    """Whether several machines may share this store."""
    return getattr(store, "is_shared", False) is True


def is_held_elsewhere(store: Store, session_id: str) -> bool:
    """Whether another replica has the session open. May ask the database."""
    if not is_shared(store):
        return False
    holder = store.holder(session_id)
    return holder is not None and holder.replica_id != store.replica_id


def tell_followers(store: Store, session_id: str) -> None:
    """Have the followers of a session, at every replica, look where it is now."""
    if is_shared(store):
        store.hint(Hint("events", session_id))
