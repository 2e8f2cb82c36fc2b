"""Several real processes on one SQLite file."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.facts import FakeClock, request, write
from tests.store.processes import child
from toolcrib.errors import LeaseHeld, LeaseLost, StoreError
from toolcrib.ledger.record import verify
from toolcrib.store import SqliteStore
from toolcrib.store.leases import Holder, is_gone, this_process
from toolcrib.store.store import ApprovalFiled

pytestmark = pytest.mark.wire  # every test starts processes

HOLD_AND_WRITE = """
store = SqliteStore(path)
lease = store.acquire("s")
write(store, lease, 3, [ApprovalFiled(request())])
tell(f"{store.head('s')}")
wait()
try:
    write(store, lease)
    tell("written")
except LeaseLost:
    tell("lost")
wait()
"""


def test_two_processes_share_one_file(sqlite_path: Path) -> None:
    """Another process sees what is committed, decides an approval, and writes other sessions."""
    with child(sqlite_path, HOLD_AND_WRITE) as other, SqliteStore(sqlite_path) as store:
        head = other.hear()

        assert str(verify(store.records("s"))) == head
        assert store.session("s").is_open
        write(store, store.acquire("mine"), 2)
        other.go_on()

        assert other.hear() == "written"
        assert verify(store.records("s")) == store.head("s")


def test_processes_may_open_a_new_file_at_once(sqlite_path: Path) -> None:
    """Whoever comes first makes the tables; nobody fails."""
    script = """
wait()
with SqliteStore(path) as store:
    write(store, store.acquire(f"s{os.getpid()}"))
tell("done")
"""
    with child(sqlite_path, script) as a, child(sqlite_path, script) as b:
        a.go_on()
        b.go_on()

        assert [a.hear(), b.hear()] == ["done", "done"]

    with SqliteStore(sqlite_path) as store:
        assert len(store.sessions().items) == 2


def test_a_live_process_keeps_its_lease(sqlite_path: Path) -> None:
    """While its writer lives a session cannot be taken over, and the error says who has it."""
    with child(sqlite_path, HOLD_AND_WRITE) as other, SqliteStore(sqlite_path) as store:
        other.hear()

        with pytest.raises(LeaseHeld, match=rf"process {other.process.pid} on .* until \d{{4}}-"):
            store.acquire("s")


def test_the_lease_of_a_killed_process_is_free_at_once(sqlite_path: Path) -> None:
    """After a SIGKILL nobody waits for the lease to expire, and nothing committed is lost."""
    with child(sqlite_path, HOLD_AND_WRITE) as other, SqliteStore(sqlite_path) as store:
        head = other.hear()
        assert store.session("s").is_open
        other.kill()

        assert not store.session("s").is_open
        lease = store.acquire("s")

        assert str(verify(store.records("s"))) == head
        write(store, lease)


def test_a_killed_process_that_nobody_has_reaped_is_dead(sqlite_path: Path) -> None:
    """A zombie keeps its number in the process table; it writes no more."""
    with child(sqlite_path, HOLD_AND_WRITE) as other, SqliteStore(sqlite_path) as store:
        other.hear()
        os.kill(other.process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other.process.pid, os.WEXITED | os.WNOWAIT)

        assert store.acquire("s").fence == 2


def test_a_stopped_process_loses_its_lease_by_expiry(sqlite_path: Path, clock: FakeClock) -> None:
    """A process that stands still is replaced when its lease runs out; it cannot write then."""
    script = HOLD_AND_WRITE.replace("SqliteStore(path)", "SqliteStore(path, clock=FakeClock())")
    with child(sqlite_path, script) as other, SqliteStore(sqlite_path, clock=clock) as store:
        other.hear()
        os.kill(other.process.pid, signal.SIGSTOP)
        with pytest.raises(LeaseHeld):
            store.acquire("s")
        clock.now += 30.0

        lease = store.acquire("s")
        write(store, lease)
        os.kill(other.process.pid, signal.SIGCONT)
        other.go_on()

        assert other.hear() == "lost"
        assert verify(store.records("s")) == store.head("s")


def test_a_clock_set_ahead_takes_no_lease_of_a_living_process(
    sqlite_path: Path, clock: FakeClock
) -> None:
    """Security 20: on one machine the holder is looked at, not only the clock."""
    script = HOLD_AND_WRITE.replace("SqliteStore(path)", "SqliteStore(path, clock=FakeClock())")
    with child(sqlite_path, script) as other, SqliteStore(sqlite_path, clock=clock) as store:
        other.hear()
        clock.now += 60.0

        with pytest.raises(LeaseHeld, match=f"by process {other.process.pid} on .*, which runs"):
            store.acquire("s")
        assert store.session("s").is_open
        with pytest.raises(LeaseHeld):
            store.delete_session("s")
        other.go_on()

        assert other.hear() != "lost"


def test_a_holder_on_an_unknown_host_is_given_its_time(
    sqlite: SqliteStore, sqlite_path: Path, clock: FakeClock
) -> None:
    """Nobody can look into another machine, so there only the expiry counts."""
    sqlite.acquire("s")
    elsewhere = str(Holder("elsewhere", "another boot", 1, "1"))
    with closing(sqlite3.connect(sqlite_path)) as connection, connection:
        connection.execute("UPDATE sessions SET holder = ?", (elsewhere,))

    with pytest.raises(LeaseHeld, match="process 1 on elsewhere"):
        sqlite.acquire("s")
    clock.now += 30.0

    sqlite.acquire("s")


def test_leases_are_renewed_while_they_are_held(sqlite_path: Path, clock: FakeClock) -> None:
    """A process that lives and does nothing keeps its lease beyond the first expiry."""
    with SqliteStore(sqlite_path, clock=clock, lease_seconds=0.03) as store:
        store.acquire("s")
        for _ in range(3):
            clock.now += 1.0

            while _expiry(sqlite_path) != clock.now + 0.03:
                os.sched_yield()

        assert _expiry(sqlite_path) == clock.now + 0.03


def test_a_closed_store_lets_go_of_its_leases(sqlite_path: Path) -> None:
    """Closing releases what the program forgot to release."""
    with SqliteStore(sqlite_path) as store:
        store.acquire("s")

    with SqliteStore(sqlite_path) as store:
        assert store.acquire("s").fence == 2


def test_a_forked_child_holds_nothing(sqlite_path: Path) -> None:
    """After a fork the child is another process: it has no lease and says what to do."""
    script = """
store = SqliteStore(path)
lease = store.acquire("s")
write(store, lease)
if os.fork() == 0:
    for attempt in (
        lambda: store.commit(lease, Commit((), [])),
        lambda: store.schedule(None),
        lambda: store.acquire("t"),
        lambda: store.sessions().items,
    ):
        try:
            attempt()
            tell("allowed")
        except StoreError as error:
            tell(f"{type(error).__name__}: {'survive a fork' in str(error)}")
    store.release(lease)
    store.close()
    tell("child done")
    os._exit(0)
os.wait()
write(store, lease)
tell("parent written")
"""
    with child(sqlite_path, script) as forked:
        heard = [forked.hear() for _ in range(6)]

    assert heard == [
        "LeaseLost: True",
        "LeaseLost: True",
        "LeaseLost: True",
        "StoreError: True",
        "child done",
        "parent written",
    ]


def test_decisions_of_two_processes_are_one_race(sqlite_path: Path) -> None:
    """Compare-and-swap holds across processes: one decision, one winner."""
    script = """
from toolcrib.approval.decision import *
with SqliteStore(path) as store:
    tell("ready")
    wait()
    tell(str(store.decide(Decided("a1", "d1", Approve(), Actor("person", "x"), 1.0))))
"""
    with SqliteStore(sqlite_path) as store:
        write(store, store.acquire("s"), 1, [ApprovalFiled(request())])
        with child(sqlite_path, script) as a, child(sqlite_path, script) as b:
            assert [a.hear(), b.hear()] == ["ready", "ready"]
            a.go_on()
            b.go_on()

            assert sorted([a.hear(), b.hear()]) == ["False", "True"]


def test_a_file_locked_for_long_is_said_to_be_busy(sqlite_path: Path) -> None:
    """A write that another process blocks ends in an error that says so, not in silence."""
    script = """
import sqlite3
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
tell("locked")
wait()
"""
    with SqliteStore(sqlite_path, busy_seconds=0.01) as store:
        lease = store.acquire("s")
        with child(sqlite_path, script) as other:
            other.hear()

            with pytest.raises(StoreError, match="another process has held its write lock"):
                write(store, lease)
            other.kill()

        write(store, lease)


def test_a_lost_lease_is_not_renewed(sqlite_path: Path, clock: FakeClock) -> None:
    """A replaced writer does not keep its successor's lease alive, nor void it."""
    with SqliteStore(sqlite_path, clock=clock) as old, SqliteStore(sqlite_path, clock=clock) as new:
        lost = old.acquire("s")
        clock.now += 30.0
        lease = new.acquire("s")

        old.release(lost)

        write(new, lease)
        with pytest.raises(LeaseLost):
            write(old, lost)


class TestHolder:
    def test_this_process_is_not_gone(self) -> None:
        """Who asks is alive, under the same name every time."""
        assert not is_gone(this_process())
        assert Holder.parse(str(this_process())) == this_process()

    def test_a_number_that_was_given_again_is_another_process(self) -> None:
        """The kernel reuses process numbers; the start time tells the processes apart."""
        me = this_process()

        assert is_gone(Holder(me.host, me.realm, me.pid, "1"))

    def test_numbers_of_another_realm_say_nothing(self) -> None:
        """Another boot or another container counts its processes by itself."""
        me = this_process()

        assert not is_gone(Holder(me.host, "other", 2**22 + 1, "1"))
        assert is_gone(Holder(me.host, me.realm, 2**22 + 1, "1"))

    def test_another_users_process_is_alive(self) -> None:
        """What may not be signalled is there."""
        me = this_process()
        init = Holder(me.host, me.realm, 1, _started(1))

        assert not is_gone(init)

    @pytest.mark.parametrize("text", ["", "a/b/c", "a/b/c/d", "a/b/1/c/d"])
    def test_other_text_is_no_holder(self, text: str) -> None:
        """What this version did not write is not taken for a dead process."""
        assert Holder.parse(text) is None


def _expiry(path: Path) -> float:
    with closing(sqlite3.connect(path)) as connection:
        (expires_at,) = connection.execute("SELECT expires_at FROM sessions").fetchone()
    return float(expires_at)


def _started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
