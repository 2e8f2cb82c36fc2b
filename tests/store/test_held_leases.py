"""The leases of a replica on PostgreSQL that nobody in it counts on any more."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest

from tests.helpers.patience import PATIENCE
from tests.store.facts import write
from toolcrib.errors import LeaseHeld, StoreError
from toolcrib.store import PostgresStore
from toolcrib.store.postgres.held_leases import HeldLeases
from toolcrib.store.store import Lease

LEASE_SECONDS = 1.5


@contextmanager
def in_queue(url: str) -> Generator[Callable[[int], None]]:
    """Keep the row of every session locked, so that whoever wants one waits in a queue; yields what
    returns once there are so many.
    """
    is_locked, is_over = threading.Event(), threading.Event()

    async def lock() -> None:
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await connection.execute("SELECT 1 FROM sessions FOR UPDATE")
                is_locked.set()
                await asyncio.to_thread(is_over.wait, PATIENCE)
        finally:
            await connection.close()

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while run(url, f"{waiting} AND datname = current_database()")[0][0] < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with ThreadPoolExecutor(1) as pool:
        locked = pool.submit(asyncio.run, lock())
        assert is_locked.wait(PATIENCE)
        try:
            yield wait_for
        finally:
            is_over.set()
            locked.result(PATIENCE)


def run(url: str, sql: str) -> list[Any]:
    """The rows of one statement."""

    async def fetch() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return asyncio.run(fetch())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_session_that_was_given_up_and_taken_again_is_not_let_go(postgres_url: str) -> None:
    """The renewal lets go of what was given up before. It stands behind the acquisition for the row
    of the session, and finds that the session is not the one that it was to let go: nobody else
    can take what this replica counts on.
    """
    with (
        PostgresStore(postgres_url, lease_seconds=LEASE_SECONDS) as store,
        PostgresStore(postgres_url, uses_process_check=False) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        lease = store.acquire("s")
        taken: Future[Lease]
        with in_queue(postgres_url) as wait_for:
            # As if no renewal had come in time.
            store._held.watch.lose_all()  # pyright: ignore[reportPrivateUsage]
            taken = pool.submit(store.acquire, "s")
            wait_for(2)
        again = taken.result(PATIENCE)

        wait_until(lambda: store.is_sure(again))
        assert again.fence > lease.fence
        write(store, again)
        with pytest.raises(LeaseHeld):
            other.acquire("s")


def test_what_was_given_up_is_let_go(postgres_url: str) -> None:
    """A replica that could not renew keeps nothing that nobody in it writes."""
    with PostgresStore(postgres_url, lease_seconds=LEASE_SECONDS) as store:
        store.acquire("s")
        store._held.watch.lose_all()  # pyright: ignore[reportPrivateUsage]
        wait_until(lambda: store.holder("s") is None)


def test_a_session_whose_acquisition_was_not_answered_is_let_go(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection was lost at its COMMIT: the caller is told that nobody knows, and the session,
    which is this replica's in the database, is free for others soon.
    """
    with (
        PostgresStore(postgres_url, lease_seconds=LEASE_SECONDS) as store,
        PostgresStore(postgres_url, uses_process_check=False) as other,
    ):
        with losing_commits(monkeypatch), pytest.raises(StoreError, match="not known"):
            store.acquire("s")
        assert run(postgres_url, "SELECT replica_id FROM sessions") == [(store.replica_id,)]

        wait_until(lambda: store.holder("s") is None)
        write(other, other.acquire("s"))


@contextmanager
def losing_commits(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Every COMMIT is done, and its answer is lost."""
    execute: Callable[..., Any] = asyncpg.Connection.execute

    async def lose(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        answer = await execute(self, query, *arguments, **options)
        if query == "COMMIT":
            raise ConnectionResetError("the answer is lost")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(asyncpg.Connection, "execute", lose)
        yield


class TestOrphans:
    def test_an_orphan_without_a_fence_waits_while_sessions_are_taken(self) -> None:
        """A session that is just being taken looks like one that was abandoned."""
        held = HeldLeases(10.0)
        held.abandon("s")

        with held.taking():
            assert held.unknown_orphans() is None
        assert held.unknown_orphans() == (["s"], 1)
        assert held.orphan_fences() == {}

    def test_what_the_database_said_before_a_session_was_taken_does_not_count(self) -> None:
        """Its fence may be that of the new lease."""
        held = HeldLeases(10.0)
        held.abandon("s")
        unknown = held.unknown_orphans()
        assert unknown is not None

        with held.taking():
            held.name_orphans({"s": 7}, unknown[1])
        assert held.orphan_fences() == {}
        held.name_orphans({"s": 7}, unknown[1] + 1)
        assert held.orphan_fences() == {"s": 7}

    def test_one_that_is_not_here_is_no_orphan(self) -> None:
        """The acquisition was not committed."""
        held = HeldLeases(10.0)
        held.abandon("s")
        held.name_orphans({"s": None}, 0)
        assert held.orphans() == set()

    def test_an_orphan_that_was_abandoned_again_stays_one(self) -> None:
        """What is settled is one lease, not all leases of the session."""
        held = HeldLeases(10.0)
        held.abandon("s", 3)
        held.settle({"s": 2})
        assert held.orphan_fences() == {"s": 3}
        held.settle({"s": 3})
        assert held.orphans() == set()

    def test_of_two_answers_the_newer_lease_counts(self) -> None:
        """However late the older one comes: its fence is void."""
        held = HeldLeases(10.0)
        held.watch.renew(held.watch.clock())
        old, new = Lease("s", "me", 1), Lease("s", "me", 2)
        held.add(new)
        held.add(old)
        assert (held.is_sure(new), held.is_sure(old)) == (True, False)
