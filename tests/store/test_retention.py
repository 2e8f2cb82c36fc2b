"""Retention: what is old goes, on record; what waits or is open stays."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from tests.store.facts import PERSON, FakeClock, open_call, request, write
from tests.store.processes import child
from tests.store.test_calls import play, rows
from toolcrib.approval.decision import Actor
from toolcrib.errors import LeaseHeld, UsageError
from toolcrib.ledger.events import PayloadsDeleted
from toolcrib.store import SqliteStore, Store
from toolcrib.store.retention import Retention, keep_retention, prune, read_retention
from toolcrib.store.shared_store import is_shared
from toolcrib.store.store import (
    ApprovalFiled,
    Artifact,
    ArtifactKept,
    CallOpened,
    KeyClaim,
)
from toolcrib.store.verification import verify_session

DAY = 86_400.0
NINETY = Retention(older_than=90 * DAY)
WHOLE = Retention(older_than=90 * DAY, delete="sessions")


@pytest.fixture
def old(store: Store, clock: FakeClock) -> Store:
    """Sessions of 1970 (their records say so) in a store whose clock says 2000: `done` is over,
    `calling` has an open call, `asking` a waiting approval, and `writing` is open.
    """
    clock.now = 1.0
    effects = {
        "done": [ArtifactKept(Artifact("art", "c1", "text"))],
        "calling": [CallOpened(open_call())],
        "asking": [ApprovalFiled(request("a1", "asking"))],
        "writing": [],
    }
    for session_id, kept in effects.items():
        lease = store.acquire(session_id, owner="alice")
        write(store, lease, 3, kept)
        store.claim_key(KeyClaim("alice", "x", session_id, "d", session_id, 1.0))
        store.release(lease)
    clock.now = 1_000_000_000.0
    if is_shared(store):
        # Its leases count only as long as its row, which was renewed thirty years ago.
        store.join(None)
    store.acquire("writing", create=False)
    return store


def test_payloads_of_old_sessions_are_deleted_on_record(old: Store, clock: FakeClock) -> None:
    """The chain still verifies and says who deleted what; artifacts and keys go too."""
    pruned = prune(old, NINETY, clock.now, PERSON)

    assert pruned.sessions == ("done",)
    *before, last = old.records("done")
    assert [record.payload for record in before] == [None] * 3
    assert isinstance(last.event, PayloadsDeleted)
    assert (last.event.actor, last.event.up_to) == (PERSON, 3)
    assert verify_session(old, "done").deleted_payloads == 3
    assert old.artifact("done", "art") is None
    assert old.claim_key(KeyClaim("alice", "x", "done", "d", "done", 1.0)) is None


@pytest.mark.parametrize("retention", [NINETY, WHOLE], ids=["payloads", "sessions"])
def test_what_waits_or_is_open_is_never_pruned(
    old: Store, clock: FakeClock, retention: Retention
) -> None:
    """An open call, an approval that is not used, a session that somebody writes."""
    pruned = prune(old, retention, clock.now, PERSON)

    assert (pruned.open, pruned.waiting) == (("writing",), ("calling", "asking"))
    for session_id in ("calling", "asking", "writing"):
        assert all(record.payload is not None for record in old.records(session_id))
    assert len(old.open_calls("calling")) == 1
    assert old.approval("a1") is not None


def test_whole_sessions_are_deleted_when_that_is_chosen(old: Store, clock: FakeClock) -> None:
    """Nothing of them stays."""
    pruned = prune(old, WHOLE, clock.now, PERSON)

    assert (pruned.sessions, pruned.records) == (("done",), 3)
    assert "done" not in {info.session_id for info in old.sessions().items}


def test_a_dry_run_says_the_same_and_deletes_nothing(old: Store, clock: FakeClock) -> None:
    """What it names is what the next run deletes."""
    planned = prune(old, NINETY, clock.now, PERSON, dry_run=True)
    assert all(record.payload is not None for record in old.records("done"))

    assert prune(old, NINETY, clock.now, PERSON) == planned


def test_what_was_pruned_is_not_pruned_again(old: Store, clock: FakeClock) -> None:
    """Years later there is nothing left but the record of the deletion, which stays."""
    prune(old, NINETY, clock.now, PERSON)
    head = old.head("done")

    assert prune(old, NINETY, clock.now + 1000 * DAY, PERSON).sessions == ()
    assert old.head("done") == head


async def test_young_calls_stay(store: Store, clock: FakeClock) -> None:
    """A session in which something happened since is not old; afterwards its calls are gone from
    the index, too.
    """
    await play(store, clock)
    assert prune(store, NINETY, clock.now + 89 * DAY, PERSON).sessions == ()
    assert len(rows(store, session_id="lab")) == 1

    pruned = prune(store, NINETY, clock.now + 91 * DAY, PERSON)
    assert (pruned.sessions, pruned.waiting) == (("lab",), ("shop",))
    assert rows(store, session_id="lab", kind=None) == []


def test_a_session_that_went_on_is_not_deleted(store: Store) -> None:
    """Between the look and the deletion somebody may have written."""
    lease = store.acquire("s")
    write(store, lease, 2)
    store.release(lease)

    with pytest.raises(LeaseHeld, match="has gone on since"):
        store.delete_session("s", last_seq=1)
    store.delete_session("s", last_seq=2)


async def test_a_runtime_prunes_in_the_background(old: Store) -> None:
    """At once and then on its schedule, until it is stopped; it says that retention did it."""
    await keep_retention(old, NINETY, FirstPause())

    *_, last = old.records("done")
    assert isinstance(last.event, PayloadsDeleted)
    assert last.event.actor == Actor("rule", "retention")


class FirstPause(asyncio.Event):
    """Is set when somebody waits for it."""

    async def wait(self) -> Literal[True]:
        self.set()
        return True


@pytest.mark.crash
@pytest.mark.parametrize(
    ("module", "place"),
    [
        ("retention.Commit", "before it is on record"),
        ("sqlite_rows.delete_payloads", "after it is on record"),
        ("sqlite_rows.forget_calls", "within the deletion"),
    ],
)
def test_a_killed_pruning_leaves_nothing_half(
    module: str, place: str, sqlite_path: Path, clock: FakeClock
) -> None:
    """The ledger verifies wherever the process was killed, and the next run does the rest."""
    with SqliteStore(sqlite_path, clock=clock) as store:
        lease = store.acquire("done")
        write(store, lease, 3, [ArtifactKept(Artifact("art", "c1", "text"))])
    script = f"""
from toolcrib.store import retention, sqlite_rows
def stop(*_, **__):
    tell("here")
    wait()
{module} = stop
retention.prune(
    SqliteStore(path), retention.Retention(older_than=1.0), 1e9, PERSON
)
"""
    with child(sqlite_path, script) as process:
        assert process.hear() == "here", place
        process.kill()

    with SqliteStore(sqlite_path) as store:
        verify_session(store, "done")
        payloads = [record.payload for record in store.records("done")][:3]
        assert None not in payloads
        assert store.artifact("done", "art") == "text"
        assert prune(store, Retention(older_than=1.0), 2e9, PERSON).sessions == ("done",)
        verify_session(store, "done")


def test_retention_as_a_project_file_has_it() -> None:
    """With durations as people write them."""
    facts = {"older_than": "90d", "delete": "sessions", "every": "10m"}
    assert read_retention(facts) == Retention(
        older_than=90 * DAY, delete="sessions", every_seconds=600.0
    )


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({}, "`older_than` is missing"),
        ({"older_than": "soon"}, "retention.older_than"),
        ({"older_than": "9d", "delete": "all"}, "retention.delete: 'all'; write payloads"),
        ({"older_than": "9d", "evry": 1}, "unknown key 'evry'"),
    ],
)
def test_wrong_retention_is_refused(facts: dict[str, object], fault: str) -> None:
    """The error names the key and what to write."""
    with pytest.raises(UsageError) as raised:
        read_retention(facts)
    assert fault in str(raised.value)
