"""Whether a lease can be counted on, by the clock of the process alone."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.facts import write
from toolcrib.errors import LeaseLost
from toolcrib.store import Lease, SqliteStore, Store
from toolcrib.store.lease_watch import SURE_PART, LeaseWatch, seconds_since_boot

LEASE = Lease("s", "this process", 3)


class Stopwatch:
    """A monotonic clock that stands where the test puts it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def watch(clock: Stopwatch) -> Iterator[LeaseWatch]:
    watch = LeaseWatch(9.0, clock=clock)
    yield watch
    watch.close()


class TestLeaseWatch:
    def test_a_lease_is_sure_for_two_thirds_of_its_time(
        self, watch: LeaseWatch, clock: Stopwatch
    ) -> None:
        """The last third of a lease is left for handlers to end in."""
        watch.hold(LEASE, at=clock.now)
        clock.now += 9.0 * SURE_PART - 0.1
        assert watch.is_sure(LEASE)

        clock.now += 0.2
        assert not watch.is_sure(LEASE)

    def test_a_renewal_counts_from_before_it_was_asked_for(
        self, watch: LeaseWatch, clock: Stopwatch
    ) -> None:
        """An answer that took long brings no time that the store may not have given."""
        watch.hold(LEASE, at=clock.now)
        asked_at = clock.now
        clock.now += 5.0
        watch.renew(asked_at)

        clock.now += 1.5
        assert not watch.is_sure(LEASE)

    def test_a_lease_without_a_renewal_of_its_own_counts_from_the_last_one(
        self, watch: LeaseWatch, clock: Stopwatch
    ) -> None:
        """Where one row is renewed for all leases, a new lease is as sure as that row."""
        watch.hold(LEASE)
        assert not watch.is_sure(LEASE)

        watch.renew(clock.now)
        assert watch.is_sure(LEASE)

    def test_only_the_newest_fence_is_sure(self, watch: LeaseWatch, clock: Stopwatch) -> None:
        """A lease of an earlier writer of this process is void."""
        watch.hold(LEASE, at=clock.now)
        watch.hold(Lease("s", "this process", 4), at=clock.now)

        assert not watch.is_sure(LEASE)

    def test_who_watches_is_told_when_the_time_is_over(self) -> None:
        """Nothing has to happen for it: a thread that cannot renew does not keep it quiet."""
        watch, was_lost = LeaseWatch(0.06), threading.Event()
        watch.hold(LEASE, at=watch.clock())
        watch.watch(LEASE, was_lost.set)

        assert was_lost.wait(20)
        assert not watch.holds(LEASE)

    def test_a_lost_lease_stays_lost(self, watch: LeaseWatch, clock: Stopwatch) -> None:
        """A renewal that comes too late revives nothing: what ran under the lease was stopped."""
        watch.hold(LEASE, at=clock.now)
        watch.lose_all()
        watch.renew(clock.now)

        assert not watch.is_sure(LEASE)

    def test_patience_waits_for_a_late_renewal(self) -> None:
        """A process that stood still and finds its lease as it left it has not lost it."""
        watch, was_lost = LeaseWatch(0.06, patience_seconds=60), threading.Event()
        watch.hold(LEASE, at=watch.clock() - 1)
        watch.watch(LEASE, was_lost.set)
        watch.renew(watch.clock() + 60)

        assert watch.is_sure(LEASE)
        assert not was_lost.is_set()
        watch.close()

    def test_a_released_lease_is_not_lost(self, watch: LeaseWatch, clock: Stopwatch) -> None:
        """Who gives a lease back needs no telling."""
        was_lost = threading.Event()
        watch.hold(LEASE, at=clock.now)
        watch.watch(LEASE, was_lost.set)
        watch.release(LEASE)
        watch.lose_all()

        assert not was_lost.is_set()

    def test_a_watch_can_be_ended(self, watch: LeaseWatch, clock: Stopwatch) -> None:
        """Who has ended its watch is told nothing."""
        was_lost = threading.Event()
        watch.hold(LEASE, at=clock.now)
        watch.watch(LEASE, was_lost.set)()
        watch.lose(LEASE)

        assert not was_lost.is_set()

    def test_a_void_lease_is_lost_at_once(self, watch: LeaseWatch) -> None:
        """Who begins to watch too late is told all the same."""
        was_lost = threading.Event()
        watch.watch(LEASE, was_lost.set)

        assert was_lost.is_set()

    def test_one_who_fails_keeps_nobody_from_being_told(
        self, watch: LeaseWatch, clock: Stopwatch
    ) -> None:
        """Each watcher is told, whatever another one does."""

        def fail() -> None:
            raise RuntimeError

        was_lost = threading.Event()
        watch.hold(LEASE, at=clock.now)
        watch.watch(LEASE, fail)
        watch.watch(LEASE, was_lost.set)
        watch.lose(LEASE)

        assert was_lost.is_set()

    def test_the_clock_of_other_machines_runs_while_this_one_sleeps(self) -> None:
        """A machine that sleeps loses its leases to others; its clock must know."""
        first = seconds_since_boot()

        assert seconds_since_boot() >= first


class TestStores:
    def test_a_lease_is_sure_until_it_is_released(self, store: Store) -> None:
        """Every store counts on a lease that it has just given."""
        lease = store.acquire("s")
        assert store.is_sure(lease)

        store.release(lease)
        assert not store.is_sure(lease)

    def test_a_void_lease_is_lost_at_once(self, store: Store) -> None:
        """Every store tells who watches a lease that is void already."""
        lease = store.acquire("s")
        store.release(lease)
        was_lost = threading.Event()
        store.watch_lease(lease, was_lost.set)

        assert was_lost.wait(20)

    def test_a_released_lease_is_not_lost(self, store: Store) -> None:
        """Every store keeps quiet about a lease that was given back."""
        lease, was_lost = store.acquire("s"), threading.Event()
        store.watch_lease(lease, was_lost.set)
        store.release(lease)
        store.close()

        assert not was_lost.is_set()


class TestSqlite:
    def test_a_lease_that_was_taken_is_lost(self, tmp_path: Path) -> None:
        """The next renewal finds out that another process became the writer."""
        path, was_lost = tmp_path / "s.db", threading.Event()
        with SqliteStore(path, lease_seconds=0.3) as store:
            lease = store.acquire("s")
            store.watch_lease(lease, was_lost.set)
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE sessions SET fence = fence + 1")
            connection.close()

            assert was_lost.wait(20)
            assert not store.is_sure(lease)
            with pytest.raises(LeaseLost):
                write(store, lease)

    def test_a_lease_that_could_not_be_renewed_is_lost_and_given_back(self, tmp_path: Path) -> None:
        """A process that was kept from renewing for the time of its lease gives it up, and another
        process may have the session as soon as the file can be written.
        """
        path, was_lost = tmp_path / "s.db", threading.Event()
        with SqliteStore(path, lease_seconds=0.6, busy_seconds=0.05) as store:
            lease = store.acquire("s")
            store.watch_lease(lease, was_lost.set)
            blocker = sqlite3.connect(path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            assert was_lost.wait(20)
            blocker.execute("ROLLBACK")
            blocker.close()
            assert not store.is_sure(lease)

            store.release(lease)
            assert store.is_sure(store.acquire("s"))
