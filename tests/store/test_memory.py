"""The memory store alone."""

import pytest

from tests.store.facts import event
from toolcrib.ledger.record import verify
from toolcrib.store import MemoryStore
from toolcrib.store.ledger_writer import Entry, entry_of


def test_nothing_is_durable() -> None:
    """A program can tell that this store dies with its process."""
    assert not MemoryStore().is_durable


def test_entries_are_encoded_when_somebody_reads() -> None:
    """Appending costs a call next to nothing while nobody reads."""
    store = MemoryStore()
    ledger = store.open_ledger(store.acquire("s"))
    encoded: list[str] = []

    def encode(subject: str) -> bytes:
        encoded.append(subject)
        return b"{}"

    entry: Entry = ("call.in_doubt", 1.0, "c1", encode, "subject")
    ledger.append(entry)
    assert encoded == []

    assert verify(store.records("s")) == store.head("s")
    assert encoded == ["subject"]


def test_an_entry_that_cannot_be_encoded_leaves_no_gap() -> None:
    """It stays where it is and is tried again; nothing is appended over it."""
    store = MemoryStore()
    ledger = store.open_ledger(store.acquire("s"))
    faults = [ValueError("not yet")]

    def encode(_: object) -> bytes:
        if faults:
            raise faults.pop()
        return b"{}"

    ledger.append(("call.in_doubt", 1.0, "c1", encode, None))
    ledger.append(entry_of(event("s", "c2")))
    with pytest.raises(ValueError, match="not yet"):
        store.head("s")

    assert [record.call_id for record in store.records("s")] == ["c1", "c2"]
    assert verify(store.records("s")) == store.head("s")
