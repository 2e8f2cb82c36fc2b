"""Small real facts for the stores' tests, and a ledger that does no more than it must."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tests.helpers.patience import PATIENCE
from toolcrib.approval.decision import Actor, ApprovalRequest
from toolcrib.approval.grant import Grant
from toolcrib.ledger.events import CallInDoubt, Event, PayloadsDeleted
from toolcrib.ledger.record import GENESIS, Head, Record, end_of, seal
from toolcrib.store.store import Commit, Effect, Lease, OpenCall, Store
from toolcrib.tools.identity import ToolRef

T = TypeVar("T")

TOOL = ToolRef("read_file", "local", "1.0.0", "d" * 64, "local")
PERSON = Actor("person", "ada")


class FakeClock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def event(session_id: str = "s", call_id: str = "c1") -> Event:
    return CallInDoubt(session_id=session_id, at=1.0, call_id=call_id, tool=TOOL)


def chain(count: int, after: Head | None = None, session_id: str = "s") -> list[Record]:
    """`count` sealed records that follow `after`."""
    seq, previous = (after.seq, after.hash) if after else (0, GENESIS)
    records: list[Record] = []
    for _ in range(count):
        seq += 1
        record = seal(event(session_id, f"c{seq}"), seq, previous)
        records.append(record)
        previous = record.hash
    return records


def write(store: Store, lease: Lease, count: int = 1, effects: Sequence[Effect] = ()) -> None:
    """Commit `count` new records at the end of the lease's session."""
    records = chain(count, store.head(lease.session_id), lease.session_id)
    store.commit(lease, Commit(records, effects))


def delete_payloads(store: Store, lease: Lease) -> None:
    """Delete the payloads of the session's records, as a session does: on record, then in fact."""
    head = store.head(lease.session_id)
    seq, previous = end_of(head)
    deleted = PayloadsDeleted(session_id=lease.session_id, at=1.0, actor=PERSON, up_to=seq)
    store.commit(lease, Commit([seal(deleted, seq + 1, previous)], ()))
    store.delete_payloads(lease, seq)


def open_call(
    call_id: str = "c1", arguments: bytes = b'{"path":"a"}', *, has_secrets: bool = False
) -> OpenCall:
    return OpenCall(call_id, TOOL, arguments, "digest", "started", 1.0, has_secrets=has_secrets)


def request(approval_id: str = "a1", session_id: str = "s", digest: str = "d1") -> ApprovalRequest:
    return ApprovalRequest(
        approval_id, session_id, "c1", TOOL, {"path": "a"}, digest, "rule 1", "risky", 1.0
    )


def grant(grant_id: str = "g1", uses_left: int | None = None, **changes: object) -> Grant:
    fields: dict[str, object] = {
        "grant_id": grant_id,
        "tool_id": TOOL.id,
        "tool_digest": TOOL.digest,
        "scope": "everyone",
        "created_by": PERSON,
        "created_at": 1.0,
        "uses_left": uses_left,
    }
    return Grant(**(fields | changes))  # pyright: ignore[reportArgumentType]


class Source:
    """A ledger as a store sees it: entries to drain, and word of what became of them."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.lease = lease
        self.head = store.head(lease.session_id)
        self.waiting: list[tuple[Event, Sequence[Effect]]] = []
        self.drains = 0
        self.outcomes: list[BaseException | None] = []
        self.is_settled = threading.Event()

    def add(self, call_id: str = "c1", *effects: Effect) -> "Source":
        self.waiting.append((event(self.lease.session_id, call_id), effects))
        return self

    def drain(self) -> Commit:
        self.drains += 1
        waiting, self.waiting = self.waiting, []
        records: list[Record] = []
        for each, _ in waiting:
            seq, previous = (self.head.seq, self.head.hash) if self.head else (0, GENESIS)
            record = seal(each, seq + 1, previous)
            self.head = Head(record.session_id, record.seq, record.hash)
            records.append(record)
        return Commit(records, [effect for _, effects in waiting for effect in effects])

    def settled(self, error: BaseException | None) -> None:
        self.outcomes.append(error)
        self.is_settled.set()

    def outcome(self) -> BaseException | None:
        """Wait for the first word and return it."""
        assert self.is_settled.wait(PATIENCE)
        return self.outcomes[0]


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Run `work(0)` ... `work(count - 1)` in as many threads, all let go at the same moment."""
    gate = threading.Barrier(count)

    def run(number: int) -> T:
        gate.wait(PATIENCE)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
