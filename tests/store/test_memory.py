"""What the memory store does for a ledger that keeps its own records."""

from collections.abc import Iterator

import pytest

from tests.store.facts import chain, grant, open_call, request
from toolcrib.errors import LeaseLost
from toolcrib.ledger.record import Head, Record
from toolcrib.store import MemoryStore
from toolcrib.store.store import CallOpened, FiledApproval


class Kept:
    """A ledger of its own that holds these records."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def records(self, after: int = 0) -> Iterator[Record]:
        return iter(self._records[after:])

    def head(self) -> Head | None:
        last = self._records[-1]
        return Head(last.session_id, last.seq, last.hash)


def test_an_attached_ledger_answers_for_its_session() -> None:
    """Records and head are the ledger's own, as long as they grow."""
    store = MemoryStore()
    store.acquire("s")
    kept = chain(2)

    store.attach("s", Kept(kept))
    assert store.head("s") == Head("s", 2, kept[1].hash)
    kept.extend(chain(1, store.head("s")))

    assert store.head("s") == Head("s", 3, kept[2].hash)
    assert list(store.records("s", after=1)) == kept[1:]
    assert store.session("s").head == store.head("s")


def test_a_second_ledger_takes_the_place_of_the_first() -> None:
    """After the session is opened again its new ledger answers."""
    store = MemoryStore()
    store.acquire("s")
    store.attach("s", Kept(chain(5)))
    assert store.head("s") is not None

    store.attach("s", Kept(chain(1)))

    assert store.head("s") == Head("s", 1, chain(1)[0].hash)


def test_effects_come_under_a_lease() -> None:
    """Who no longer writes the session changes nothing in it."""
    store = MemoryStore()
    lease = store.acquire("s")
    store.apply(lease, [CallOpened(open_call("c1"))])
    store.release(lease)

    with pytest.raises(LeaseLost):
        store.apply(lease, [CallOpened(open_call("c2"))])

    assert store.open_calls("s") == [open_call("c1")]


def test_what_was_exported_is_put_back() -> None:
    """Open calls, requests and grants of a state are there again."""
    store = MemoryStore()
    lease = store.acquire("s")
    filed = FiledApproval(request(), "pending", None)

    store.restore(lease, [open_call()], [filed], [grant()])

    assert store.open_calls("s") == [open_call()]
    assert store.approvals() == [filed]
    assert store.grants() == [grant()]


def test_nothing_is_durable() -> None:
    """A program can tell that this store dies with its process."""
    assert not MemoryStore().is_durable
