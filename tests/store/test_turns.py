"""Turns in a store that replicas share: queued in order, taken up by one replica at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import asyncpg
import pytest

from tests.helpers.patience import PATIENCE
from tests.store.facts import PERSON, FakeClock, at_once, chain, request
from toolcrib.approval.decision import Approve, Decided
from toolcrib.errors import LeaseHeld, LeaseLost, SessionNotFound
from toolcrib.store import PostgresStore
from toolcrib.store.postgres import turn_rows
from toolcrib.store.postgres.database import PostgresDatabase, Timeouts
from toolcrib.store.postgres.upkeep import Upkeep
from toolcrib.store.shared_store import (
    ClaimedTurn,
    Hint,
    QueuedTurn,
    QueueRule,
    SharedValue,
    TurnState,
)
from toolcrib.store.store import ApprovalFiled, ApprovalUsed, Commit, Lease

Other = Callable[[], PostgresStore]


@pytest.fixture
def other(postgres_url: str, shared: PostgresStore, clock: FakeClock) -> Iterator[Other]:
    """Opens more replicas of the database of `shared`."""
    with ExitStack() as stack:

        def open_one() -> PostgresStore:
            store = PostgresStore(postgres_url, clock=clock, uses_process_check=False)
            return stack.enter_context(store)

        yield open_one


def new_session(store: PostgresStore, session_id: str = "s") -> None:
    store.release(store.acquire(session_id))


def queue(
    store: PostgresStore,
    turn_id: str = "t1",
    session_id: str = "s",
    when_busy: QueueRule = "enqueue",
    most_queued: int = 32,
    gives_way: bool = False,
    is_kept: bool = False,
) -> QueuedTurn | None:
    request = b'{"text":"hi"}'
    turn = QueuedTurn(turn_id, session_id, request, gives_way=gives_way, is_kept=is_kept)
    return store.queue_turn(turn, when_busy=when_busy, most_queued=most_queued, by="ada")


def claim(store: PostgresStore, session_id: str | None = None) -> ClaimedTurn:
    (claimed,) = store.claim_turns(1, session_id=session_id)
    return claimed


def settle(
    store: PostgresStore,
    claimed: ClaimedTurn,
    state: TurnState = "ended",
    pending: tuple[str, ...] = (),
    wake_at: float | None = None,
) -> None:
    turn = replace(claimed.turn, state=state, outcome=b"{}", pending=pending, wake_at=wake_at)
    store.settle_turn(claimed, turn)


def file_request(store: PostgresStore, lease: Lease, deadline: float | None = None) -> None:
    filed = replace(request("a1"), deadline=deadline)
    store.commit(lease, Commit((), [ApprovalFiled(filed)]))


def decide(store: PostgresStore) -> bool:
    return store.decide(Decided("a1", "d1", Approve(), PERSON, 2.0))


def ids(store: PostgresStore) -> list[str]:
    return [turn.turn_id for turn in store.turns(session_id="s")]


def test_a_queued_turn_is_taken_up_with_the_lease_of_its_session(
    shared: PostgresStore, other: Other
) -> None:
    """Who claims a turn writes its session: nobody else may, and the lease is newer than all."""
    replica = other()
    first = shared.acquire("s")
    shared.release(first)
    queue(shared)
    claimed = claim(replica)

    assert (claimed.turn.state, claimed.turn.failures) == ("running", 0)
    assert claimed.turn.request == b'{"text":"hi"}'
    assert claimed.lease.fence > first.fence
    assert not claimed.was_held
    with pytest.raises(LeaseHeld):
        shared.acquire("s")
    replica.commit(claimed.lease, Commit(chain(1), ()))


def test_a_turn_of_an_unknown_session_is_refused(shared: PostgresStore) -> None:
    """A prompt is accepted only for a session that is there."""
    with pytest.raises(SessionNotFound):
        queue(shared, session_id="none")


def test_a_deleted_session_takes_its_own_shared_values_along(shared: PostgresStore) -> None:
    """And those of no other one, whatever its id begins with: no id has a slash in it, and no other
    character of an id stands for anything but itself.
    """
    others = ["a", "a_b.c", "axb", "a_b:c", "session", "A_b"]
    for session_id in ["a_b", *others]:
        new_session(shared, session_id)
        for name in ("declared", "link/client"):
            assert shared.put_value(SharedValue(f"session/{session_id}/{name}", b"1"), after=None)

    shared.delete_session("a_b")

    assert shared.value("session/a_b/declared") is None
    assert shared.value("session/a_b/link/client") is None
    for session_id in others:
        assert shared.value(f"session/{session_id}/declared") is not None
        assert shared.value(f"session/{session_id}/link/client") is not None


def test_a_turn_id_is_queued_once(shared: PostgresStore) -> None:
    """A request that is repeated finds its turn as it is, also after its end."""
    new_session(shared)
    queue(shared)
    again = queue(shared, when_busy="reject")
    settle(shared, claim(shared))
    after = queue(shared, when_busy="reject")

    assert again is not None
    assert again.state == "queued"
    assert after is not None
    assert (after.state, after.outcome, after.request) == ("ended", b"{}", b"")


def test_of_two_replicas_one_gets_each_of_a_thousand_turns(
    shared: PostgresStore, other: Other
) -> None:
    """However many claim at once, every turn is taken up exactly once."""
    stores = [shared, other()]
    for number in range(1000):
        new_session(shared, f"s{number}")
        queue(shared, f"t{number}", f"s{number}")

    def take(number: int) -> list[str]:
        mine: list[str] = []
        while claimed := stores[number % 2].claim_turns(7):
            mine += [each.turn.turn_id for each in claimed]
        return mine

    taken = at_once(4, take)

    # Rows that another one had locked were left out; nobody has them now.
    rest = [each.turn.turn_id for each in shared.claim_turns(1000)]
    everything = [*rest, *(turn_id for each in taken for turn_id in each)]
    assert sorted(everything) == sorted(f"t{number}" for number in range(1000))
    assert sum(bool(each) for each in taken) > 1


def test_a_turn_goes_on_when_its_replica_is_gone(
    shared: PostgresStore, other: Other, clock: FakeClock
) -> None:
    """An expired replica holds nothing: its turn is due, and its lease is void."""
    replica = other()
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    before = replica.claim_turns(1)
    clock.now += 11
    replica.join(None)
    taken = claim(replica)

    assert not before
    assert taken.turn.failures == 0
    assert taken.lease.fence > claimed.lease.fence
    with pytest.raises(LeaseLost):
        settle(shared, claimed)
    assert replica.turns(turn_ids=["t1"])[0].state == "running"


def test_a_replica_whose_row_has_expired_claims_nothing(
    shared: PostgresStore, clock: FakeClock
) -> None:
    """A lease counts only while its replica's row does: a late one must renew first."""
    new_session(shared)
    queue(shared)
    clock.now += 11
    late = shared.claim_turns(1)
    shared.join(None)

    assert not late
    assert claim(shared).turn.turn_id == "t1"


def test_a_turn_that_was_settled_as_waiting_holds_no_lease(
    shared: PostgresStore, other: Other
) -> None:
    """State and lease change in one transaction: whoever sees it wait finds the session free."""
    new_session(shared)
    queue(shared)
    settle(shared, claim(shared), "waiting", pending=("a1",), wake_at=None)

    assert shared.holder("s") is None
    assert not shared.claim_turns(1)
    replica = other()
    replica.release(replica.acquire("s", create=False))


def test_a_decision_makes_a_turn_due(shared: PostgresStore, other: Other) -> None:
    """A decision on any replica wakes the turn, and nothing else does."""
    replica = other()
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    file_request(shared, claimed.lease)
    settle(shared, claimed, "waiting", pending=("a1",))
    before = (shared.claim_turns(1), shared.claim_turns(1, session_id="s"), shared.due_turns(1))
    decided = decide(replica)

    assert before == ([], [], [])
    assert decided
    assert replica.due_turns(5) == ["s"]
    assert claim(replica).turn.turn_id == "t1"


def test_a_decision_before_the_turn_waits_is_not_lost(shared: PostgresStore) -> None:
    """Decided while the turn still ran: it is due as soon as it waits."""
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    file_request(shared, claimed.lease)
    decide(shared)
    settle(shared, claimed, "waiting", pending=("a1",))

    assert claim(shared).turn.turn_id == "t1"


def test_no_decision_is_lost_in_a_race_with_the_turn_that_begins_to_wait(
    shared: PostgresStore, other: Other
) -> None:
    """A decision and the turn that starts to wait for it, at once: it always goes on."""
    replica = other()
    for number in range(100):
        session_id, approval_id = f"s{number}", f"a{number}"
        new_session(shared, session_id)
        queue(shared, f"t{number}", session_id)
        claimed = claim(shared, session_id)
        filed = request(approval_id, session_id)
        shared.commit(claimed.lease, Commit((), [ApprovalFiled(filed)]))

        def work(
            which: int, claimed: ClaimedTurn = claimed, approval_id: str = approval_id
        ) -> None:
            if which:
                settle(shared, claimed, "waiting", pending=(approval_id,))
            else:
                assert replica.decide(Decided(approval_id, "d1", Approve(), PERSON, 2.0))

        at_once(2, work)
    assert len(shared.claim_turns(100)) == 100


def test_a_request_that_was_withdrawn_counts_as_decided(shared: PostgresStore) -> None:
    """A turn that waits for a request goes on once the request is used up by something else."""
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    file_request(shared, claimed.lease, None)
    settle(shared, claimed, "waiting", pending=("a1",))
    before = shared.claim_turns(1)
    lease = shared.acquire("s")
    shared.commit(lease, Commit((), [ApprovalUsed("a1")]))
    shared.release(lease)

    assert not before
    assert len(shared.claim_turns(1)) == 1


async def test_a_turn_that_waits_for_a_lost_request_is_found(
    shared: PostgresStore, clock: FakeClock, postgres_url: str
) -> None:
    """Whatever became of the request: the turn goes on when it is asked for by name, or after the
    upkeep of the store.
    """
    for session_id in ("s", "s2"):
        new_session(shared, session_id)
        queue(shared, f"turn of {session_id}", session_id)
        settle(shared, claim(shared, session_id), "waiting", pending=("gone",))
    before = shared.claim_turns(2)
    by_name = shared.claim_turns(2, session_id="s")
    await Upkeep(PostgresDatabase(postgres_url, Timeouts(), 1), clock).run()

    assert not before
    assert [each.lease.session_id for each in by_name] == ["s"]
    assert [each.lease.session_id for each in shared.claim_turns(2)] == ["s2"]


def test_a_deadline_makes_a_turn_due(shared: PostgresStore, clock: FakeClock) -> None:
    """A turn that waits until a time goes on at that time, by the clock of the store."""
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    file_request(shared, claimed.lease, clock.now + 5)
    settle(shared, claimed, "waiting", pending=("a1",), wake_at=clock.now + 5)
    before = shared.claim_turns(1)
    clock.now += 5

    assert not before
    assert claim(shared).turn.turn_id == "t1"


def test_a_deadline_that_only_the_store_takes_for_passed_makes_no_loop(
    shared: PostgresStore, clock: FakeClock
) -> None:
    """A replica whose clock is behind the store's finds the request still open and lets the turn
    wait on: it is due again a second later, and not at once.
    """
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    file_request(shared, claimed.lease, clock.now - 5)
    settle(shared, claimed, "waiting", pending=("a1",), wake_at=clock.now - 5)
    at_once = shared.claim_turns(1)
    clock.now += 1

    assert not at_once
    assert claim(shared).turn.turn_id == "t1"


@pytest.mark.parametrize(
    "question",
    [turn_rows.CLAIM % "SKIP LOCKED", turn_rows.DUE_SESSIONS],
    ids=["claim", "due sessions"],
)
async def test_a_look_reads_no_turn_that_is_due_later(
    shared: PostgresStore, clock: FakeClock, postgres_url: str, question: str
) -> None:
    """A look for turns costs the same however many wait for a deadline."""
    shared.join(None)
    parameters: list[object] = [clock.now, shared.replica_id, [], 16]
    if "$5" in question:
        parameters += ["p", None, False]
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(
            "INSERT INTO sessions (session_id, born, created_at, settings, head_hash, fence)"
            " SELECT 's' || i, 0, 0, '', '', 0 FROM generate_series(1, 5000) i"
        )
        await connection.execute(
            "INSERT INTO turns"
            " (turn_id, session_id, state, request, due_at, created_at, changed_at)"
            " SELECT 't' || i, 's' || i, 'waiting', '', $1::float + 3600, 0, 0"
            " FROM generate_series(1, 5000) i",
            clock.now,
        )
        await connection.execute("ANALYZE turns, sessions")
        plan = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING off) {question}", *parameters)
    finally:
        await connection.close()

    lines = [row[0] for row in plan]
    assert any("on turns_due" in line or "using turns_due" in line for line in lines), lines
    assert not [line for line in lines if "Rows Removed" in line or "Seq Scan on turns" in line]


def test_turns_of_a_session_come_one_after_the_other(shared: PostgresStore) -> None:
    """The next begins when the one before has ended, and not while it runs or waits."""
    new_session(shared)
    for turn_id in ("t1", "t2", "t3"):
        queue(shared, turn_id)
    first = claim(shared)
    while_running = shared.claim_turns(5)
    settle(shared, first, "waiting", pending=("a1",), wake_at=None)
    while_waiting = shared.claim_turns(5)
    settle(shared, claim(shared, "s"))

    assert not while_running
    assert not while_waiting
    assert claim(shared).turn.turn_id == "t2"
    assert ids(shared) == ["t2", "t3"]


def test_a_session_that_is_busy_rejects_a_turn(shared: PostgresStore) -> None:
    """With `reject` one turn at a time; with `enqueue` as many as are allowed."""
    new_session(shared)
    accepted = queue(shared, "t1", when_busy="reject")
    rejected = queue(shared, "t2", when_busy="reject")
    claimed = claim(shared)
    behind = [queue(shared, turn_id, most_queued=2) for turn_id in ("t3", "t4", "t5")]

    assert accepted is not None
    assert rejected is None
    assert [each is not None for each in behind] == [True, True, False]
    assert claimed.turn.turn_id == "t1"


def test_a_turn_that_gives_way_is_cancelled_for_the_next(shared: PostgresStore) -> None:
    """A prompt whose sender does not wait for its approvals is given up for another prompt."""
    new_session(shared)
    queue(shared, "t1", gives_way=True)
    running = queue(shared, "t2", when_busy="reject")
    settle(shared, claim(shared), "waiting", pending=("a1",))
    accepted = queue(shared, "t3", when_busy="reject")
    given_up = claim(shared)
    settle(shared, given_up)

    assert running is None
    assert accepted is not None
    assert (given_up.turn.turn_id, given_up.turn.cancelled_by) == ("t1", "ada")
    assert claim(shared).turn.turn_id == "t3"


def test_an_interrupt_cancels_all_others(shared: PostgresStore) -> None:
    """Whoever interrupts comes after turns that end without an answer."""
    new_session(shared)
    queue(shared, "t1")
    queue(shared, "t2")
    running = claim(shared)
    queue(shared, "t3", when_busy="interrupt")

    assert [turn.turn_id for turn in shared.cancelled_turns()] == ["t1"]
    settle(shared, running)
    second = claim(shared)
    assert (second.turn.turn_id, second.turn.cancelled_by) == ("t2", "ada")
    settle(shared, second)
    assert claim(shared).turn.cancelled_by is None


def test_a_turn_that_waits_is_due_once_it_is_cancelled(shared: PostgresStore, other: Other) -> None:
    """A cancel on any replica reaches a turn that nobody has."""
    new_session(shared)
    queue(shared)
    settle(shared, claim(shared), "waiting", pending=("a1",))
    cancelled = other().cancel_turn("s", "eve")

    assert cancelled is not None
    assert claim(shared).turn.cancelled_by == "eve"


def test_a_turn_that_runs_is_cancelled_where_it_runs(shared: PostgresStore, other: Other) -> None:
    """Only the replica that runs the turn is told; one that begins to wait meanwhile is due."""
    replica = other()
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    replica.cancel_turn("s", "eve")

    assert [turn.cancelled_by for turn in shared.cancelled_turns()] == ["eve"]
    assert replica.cancelled_turns() == []
    settle(shared, claimed, "waiting", pending=("a1",))
    assert claim(replica).turn.cancelled_by == "eve"


def test_there_may_be_nothing_to_cancel(shared: PostgresStore) -> None:
    """A session without a turn has none to cancel."""
    new_session(shared)
    assert shared.cancel_turn("s", "eve") is None


def test_a_session_that_is_open_here_keeps_its_lease(shared: PostgresStore, other: Other) -> None:
    """The replica that has a session open takes its turns up, and no other one does."""
    replica = other()
    lease = shared.acquire("s")
    queue(replica)

    assert not replica.claim_turns(1)
    assert replica.due_turns(1) == []
    assert len(shared.claim_turns(0, only_open=True)) == 0
    (claimed,) = shared.claim_turns(1, only_open=True)
    assert claimed == ClaimedTurn(claimed.turn, lease, was_held=True)
    shared.settle_turn(claimed, replace(claimed.turn, state="ended"), releases=False)
    shared.commit(lease, Commit(chain(1), ()))


def test_only_open_sessions_may_be_asked_for(shared: PostgresStore) -> None:
    """A replica that takes no turns up leaves those of closed sessions to others."""
    new_session(shared)
    queue(shared)
    assert not shared.claim_turns(1, only_open=True)


def test_a_turn_that_was_left_is_due_at_once(shared: PostgresStore, other: Other) -> None:
    """Whoever stops in the middle lets another one go on: here at once, elsewhere without lease."""
    replica = other()
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    shared.leave_turn(claimed)
    elsewhere = replica.claim_turns(1)
    again = claim(shared)
    shared.leave_turn(again)
    shared.release(again.lease)

    assert not elsewhere
    assert again.was_held
    assert claim(replica).turn.failures == 0


def test_a_turn_whose_session_was_let_go_is_due(shared: PostgresStore, other: Other) -> None:
    """A replica that ends between its two words, lease and turn, loses nothing."""
    new_session(shared)
    queue(shared)
    shared.release(claim(shared).lease)
    assert claim(other()).turn.turn_id == "t1"


def test_a_turn_that_could_not_begin_comes_back_later(
    shared: PostgresStore, clock: FakeClock
) -> None:
    """It is due again only after its pause, so that nobody tries in a circle."""
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    failed = replace(claimed.turn, state="queued", failures=1)
    shared.settle_turn(claimed, failed, pause_seconds=5)
    at_once_again = shared.claim_turns(1)
    clock.now += 5

    assert not at_once_again
    assert claim(shared).turn.failures == 1


def test_a_turn_that_is_left_with_a_pause_has_failed(
    shared: PostgresStore, clock: FakeClock
) -> None:
    """Whoever leaves it because it could not go on counts that, though it cannot settle it."""
    new_session(shared)
    queue(shared)
    shared.leave_turn(claim(shared), pause_seconds=5)
    clock.now += 5
    assert claim(shared).turn.failures == 1


def test_turns_that_were_cut_off_together_go_on_in_their_order(
    shared: PostgresStore, other: Other, clock: FakeClock
) -> None:
    """The turn that was sent first is the first that a replica gets after another one has died."""
    names = [f"s{number}" for number in range(5)]
    for name in names:
        new_session(shared, name)
    for name in reversed(names):
        queue(shared, f"turn of {name}", name)
        clock.now += 1
    replica = other()
    shared.claim_turns(5)
    clock.now += 11
    replica.join(None)
    taken = replica.claim_turns(5)
    assert [each.turn.session_id for each in taken] == names[::-1]


def test_turns_are_forgotten_some_time_after_their_end(
    shared: PostgresStore, clock: FakeClock
) -> None:
    """Those that are kept for repeated requests, and those that have not ended, stay."""
    new_session(shared)
    for turn_id in ("t1", "t2"):
        queue(shared, turn_id, is_kept=turn_id == "t2")
        settle(shared, claim(shared))
    clock.now += 10
    queue(shared, "t3")
    shared.prune_turns(clock.now - 5)

    left = shared.turns(turn_ids=["t1", "t2", "t3"])
    newest = shared.last_turn("s")
    assert [turn.turn_id for turn in left] == ["t2", "t3"]
    assert newest is not None
    assert newest.turn_id == "t3"


def test_the_turns_of_a_session_go_with_it(shared: PostgresStore) -> None:
    """A session that is deleted leaves no turn behind."""
    new_session(shared)
    queue(shared, is_kept=True)
    shared.delete_session("s")
    assert shared.turns(turn_ids=["t1"]) == []


def test_kept_turns_are_forgotten_with_the_keys_of_their_session(shared: PostgresStore) -> None:
    """A prompt's key lives as long as every other key: retention that deletes the payloads of a
    session forgets both. Turns that have not ended, and those of other sessions, stay.
    """
    for session_id in ("s", "r"):
        new_session(shared, session_id)
        queue(shared, f"ended in {session_id}", session_id, is_kept=True)
        settle(shared, claim(shared))
    queue(shared, "queued in s", "s", is_kept=True)
    lease = shared.acquire("s")
    shared.forget_keys(lease)
    shared.release(lease)

    left = shared.turns(turn_ids=["ended in s", "queued in s", "ended in r"])
    assert {turn.turn_id for turn in left} == {"queued in s", "ended in r"}


def test_a_process_without_the_lease_forgets_nothing(shared: PostgresStore, other: Other) -> None:
    """Only the writer of a session forgets its keys."""
    new_session(shared)
    queue(shared, is_kept=True)
    settle(shared, claim(shared))
    lease = shared.acquire("s")
    shared.release(lease)
    with pytest.raises(LeaseLost):
        other().forget_keys(lease)
    assert [turn.turn_id for turn in shared.turns(turn_ids=["t1"])] == ["t1"]


def test_other_replicas_are_hinted(shared: PostgresStore, other: Other) -> None:
    """A turn that is queued, decided or cancelled is worth a look elsewhere."""
    heard: list[Hint] = []
    replica = other()
    replica.on_hint(heard.append)
    new_session(shared)
    queue(shared)
    claimed = claim(shared)
    file_request(shared, claimed.lease)
    settle(shared, claimed, "waiting", pending=("a1",))
    decide(shared)
    shared.cancel_turn("s", "eve")
    wait_for(lambda: {hint.topic for hint in heard} == {"turn", "decision", "cancel"})


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
