"""What every store promises about votes, and about what has expired."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.facts import PERSON, FakeClock, at_once, grant, request, write
from tests.store.processes import child
from toolcrib.approval.decision import Actor, Approve, Ballot, Decided, Deny, Expire, Vote
from toolcrib.approval.quorum import Quorum
from toolcrib.session.approvals import file_decision
from toolcrib.store import SqliteStore, Store
from toolcrib.store.store import ApprovalFiled

BOB = Actor("person", "bob")
FIRST, SECOND = Vote(PERSON, 2.0), Vote(BOB, 3.0)
AS_IT_IS = Approve()
EDIT = Approve({"path": "edited-in-secret"})


def filed(store: Store, **changes: object) -> None:
    """File a request that two people have to approve."""
    asked = replace(request(), approvers=(Quorum(2),), **changes)
    write(store, store.acquire("s"), 1, [ApprovalFiled(asked)])


def both(approval: Approve = AS_IT_IS) -> Decided:
    return Decided("a1", "d1", approval, BOB, 3.0, (FIRST, SECOND))


class TestVotes:
    @pytest.mark.parametrize("approval", [Approve(), EDIT], ids=["as it is", "edited"])
    def test_a_vote_is_kept_until_the_next(self, store: Store, approval: Approve) -> None:
        """The request stays pending with its votes; the last one decides it, edit and all."""
        filed(store)
        ballot = Ballot(approval, (FIRST,))

        assert store.vote("a1", "d1", ballot, after=None)
        waiting = store.approval("a1")
        assert store.decide(both(approval))
        done = store.approval("a1")

        assert waiting is not None
        assert (waiting.state, waiting.ballot) == ("pending", ballot)
        assert done is not None
        assert (done.state, done.ballot, done.decided) == ("decided", None, both(approval))

    def test_a_vote_follows_the_votes_that_the_voter_saw(self, store: Store) -> None:
        """Compare-and-swap: one who did not see the last vote has to look again."""
        filed(store)
        ballot = Ballot(Approve(), (FIRST,))

        assert not store.vote("a1", "d1", ballot, after=Ballot(EDIT, (FIRST,)))
        assert not store.vote("a1", "other digest", ballot, after=None)
        assert not store.vote("a2", "d1", ballot, after=None)
        assert store.vote("a1", "d1", ballot, after=None)
        assert not store.vote("a1", "d1", Ballot(EDIT, (SECOND,)), after=None)

    def test_a_decision_by_votes_needs_exactly_those_votes(self, store: Store) -> None:
        """Nobody decides with a vote that is not there, or that was for something else."""
        filed(store)

        assert not store.decide(both())
        store.vote("a1", "d1", Ballot(EDIT, (FIRST,)), after=None)
        assert not store.decide(both())
        assert store.decide(both(EDIT))

    def test_one_denial_denies(self, store: Store) -> None:
        """It keeps who had approved, and no vote counts any more."""
        filed(store)
        store.vote("a1", "d1", Ballot(Approve(), (FIRST,)), after=None)

        assert store.decide(Decided("a1", "d1", Deny(), BOB, 3.0, (FIRST,)))
        assert not store.decide(both())
        assert not store.vote("a1", "d1", Ballot(Approve(), (SECOND,)), after=None)

    def test_voters_at_once_all_count(self, store: Store) -> None:
        """Ten people approve in ten threads: every vote is there, and one of them decides."""
        asked = replace(request(), approvers=(Quorum(10),))
        write(store, store.acquire("s"), 1, [ApprovalFiled(asked)])

        def approve(number: int) -> Decided | Ballot:
            actor = Actor("person", f"p{number}")
            decided = Decided("a1", "d1", Approve(), actor, float(number))
            return file_decision(store, decided, FIRST.authority)

        results = at_once(10, approve)
        done = store.approval("a1")

        assert sum(isinstance(result, Decided) for result in results) == 1
        assert done is not None
        assert done.decided is not None
        assert {vote.actor.name for vote in done.decided.votes} == {f"p{n}" for n in range(10)}


class TestExpiry:
    def test_a_clock_set_back_revives_no_grant(self, store: Store) -> None:
        """Security 20: seen expired once, it is expired at every earlier time too."""
        store.add_grant(grant("g1", expires_at=10.0))
        store.add_grant(grant("g2", expires_at=20.0))

        store.expire(10.0)

        assert not store.use_grant("g1", 5.0)
        assert store.use_grant("g2", 5.0)
        expired = store.grant("g1")
        assert expired is not None
        assert (expired.expired_at, expired.is_live(5.0)) == (10.0, False)

    def test_a_clock_set_back_revives_no_request(self, store: Store) -> None:
        """Security 20: a request whose deadline was seen to pass is decided, by the clock."""
        filed(store, deadline=10.0)

        store.expire(9.9)
        before = store.approval("a1")
        store.expire(10.0)
        after = store.approval("a1")

        assert before is not None
        assert before.state == "pending"
        assert after is not None
        assert after.decided is not None
        assert (after.decided.decision, after.decided.actor.kind) == (Expire(), "timeout")
        assert not store.decide(Decided("a1", "d1", Approve(), BOB, 5.0))

    def test_a_clock_that_was_ahead_does_not_shorten_later_grants(self, store: Store) -> None:
        """Only what was there at the wrong time has expired."""
        store.add_grant(grant("g1", expires_at=10.0))
        store.expire(1_000_000.0)
        store.add_grant(grant("g2", expires_at=20.0))

        assert not store.use_grant("g1", 5.0)
        assert store.use_grant("g2", 5.0)

    def test_a_revocation_names_who_revoked(self, store: Store) -> None:
        """Who took a grant back is with the grant, whichever ledger could be written."""
        store.add_grant(grant())

        store.revoke_grant("g1", 5.0, BOB)

        assert [each.revoked_by for each in store.grants().items] == [BOB]


def test_edits_of_votes_are_not_in_the_database(sqlite_path: Path) -> None:
    """What an approver typed may hold a secret: it lies in the vault while it waits, and in
    nothing at all once it was voided.
    """
    with SqliteStore(sqlite_path, clock=FakeClock()) as store:
        filed(store)
        ballot = Ballot(EDIT, (FIRST,))
        store.vote("a1", "d1", ballot, after=None)
        vault = Path(f"{sqlite_path}-open")
        held = len(list(vault.iterdir()))
        store.vote("a1", "d1", Ballot(Approve(), (SECOND,)), after=ballot)

        assert (held, list(vault.iterdir())) == (1, [])
    for file in sqlite_path.parent.glob(f"{sqlite_path.name}*"):
        if file.is_file():
            assert b"edited-in-secret" not in file.read_bytes()


def test_votes_survive_the_process(sqlite_path: Path) -> None:
    """A vote is on disk: another process, later, adds the second one."""
    with SqliteStore(sqlite_path) as store:
        filed(store)
        store.vote("a1", "d1", Ballot(EDIT, (FIRST,)), after=None)
    with SqliteStore(sqlite_path) as store:
        assert store.decide(both(EDIT))


VOTE = """
from toolcrib.approval.decision import *
from toolcrib.session.approvals import file_decision
store = SqliteStore(path)
wait()
for number in range(20):
    actor = Actor("person", f"{sys.argv[0]}{os.getpid()}")
    filed = file_decision(store, Decided(f"a{number}", "d1", Approve(), actor, 2.0), HOST)
    tell(type(filed).__name__)
store.close()
"""


@pytest.mark.wire
def test_two_processes_vote_at_once(sqlite_path: Path) -> None:
    """Of two approvers in two processes, each request is decided by exactly one, with both."""
    with SqliteStore(sqlite_path) as store:
        requests = [
            ApprovalFiled(replace(request(f"a{n}"), approvers=(Quorum(2),))) for n in range(20)
        ]
        write(store, store.acquire("s"), 1, requests)
        with child(sqlite_path, VOTE) as one, child(sqlite_path, VOTE) as two:
            one.go_on()
            two.go_on()
            pairs = [{one.hear(), two.hear()} for _ in range(20)]
            assert (one.end(), two.end()) == (0, 0)

        decided = [store.approval(f"a{n}") for n in range(20)]
    assert pairs == [{"Ballot", "Decided"}] * 20
    assert all(each and each.decided and len(each.decided.votes) == 2 for each in decided)
