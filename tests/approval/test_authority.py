"""Who may decide what: four eyes, groups, and several approvers."""

import pytest

from tests.approval.samples import request
from toolcrib.approval.authority import cast_vote, check_decider, check_votes, completes, is_met
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import (
    HOST,
    Actor,
    Answer,
    Approve,
    Authority,
    Ballot,
    Decided,
    Decision,
    Deny,
    Vote,
)
from toolcrib.approval.quorum import Quorum
from toolcrib.errors import DecisionForbidden, InvalidDecision, InvalidPolicy

ANN, BOB, EVE = (Actor("person", name) for name in ("ann", "bob", "eve"))
CALLBACK = Actor("rule", "callback")
NOBODYS = Authority()
FINANCE = Authority(groups=("finance",))
OWNER = Authority(is_admin=True, may_approve_own=True)
TWO = (Quorum(2),)


def vote(actor: Actor, authority: Authority = HOST) -> Vote:
    return Vote(actor, 1.0, authority)


@pytest.mark.parametrize("decision", [Approve(), Approve({"path": "b"}), Answer("done")])
@pytest.mark.parametrize("authority", [NOBODYS, HOST], ids=["approver", "admin"])
def test_nobody_approves_their_own_call(decision: Decision, authority: Authority) -> None:
    """Security 10: not as it is, not edited, not by an answer, and not as an admin either."""
    asked = request(caller=Caller("ann"))

    with pytest.raises(DecisionForbidden, match="somebody else"):
        check_decider(asked, decision, ANN, authority)
    check_decider(asked, decision, BOB, authority)


def test_everybody_denies_their_own_call() -> None:
    """To take something back needs nobody else."""
    own = request(caller=Caller("ann"))

    check_decider(own, Deny(), ANN, NOBODYS)
    with pytest.raises(DecisionForbidden):
        check_decider(own, Approve(), ANN, NOBODYS)


def test_who_may_approve_their_own_calls_does() -> None:
    """The owner of the runtime, and everybody where the configuration says so."""
    own = request(caller=Caller("ann"))

    check_decider(own, Approve(), ANN, OWNER)
    with pytest.raises(DecisionForbidden):
        check_decider(own, Approve(), ANN, NOBODYS)


def test_a_call_of_the_program_itself_is_nobodys_own() -> None:
    """Where nobody is named as the asker, everybody else is somebody else."""
    check_decider(request(), Approve(), ANN, NOBODYS)
    with pytest.raises(DecisionForbidden):
        check_decider(request(caller=Caller("ann")), Approve(), ANN, NOBODYS)


@pytest.mark.parametrize("decision", [Approve(), Deny()])
def test_a_request_is_for_its_groups(decision: Decision) -> None:
    """Who is in none of the groups neither approves nor denies; an admin is in all of them."""
    asked = request(approvers=(Quorum(groups=("finance", "board")),))

    with pytest.raises(DecisionForbidden, match="finance"):
        check_decider(asked, decision, BOB, Authority(groups=("desk",)))
    check_decider(asked, decision, BOB, FINANCE)
    check_decider(asked, decision, BOB, HOST)


def test_one_of_several_approvers_does_not_answer_for_all() -> None:
    """An answer in the tool's place looks like a result that two people stood for."""
    with pytest.raises(DecisionForbidden, match="2 of all approvers"):
        check_decider(request(approvers=TWO), Answer("paid"), ANN, HOST)


@pytest.mark.parametrize(
    ("quorums", "votes", "is_enough"),
    [
        (TWO, [vote(ANN)], False),
        (TWO, [vote(ANN), vote(BOB)], True),
        (TWO, [vote(ANN), vote(ANN)], False),
        (TWO, [vote(ANN), vote(CALLBACK)], False),
        ((Quorum(1),), [vote(CALLBACK)], True),
        ((Quorum(2, ("finance",)),), [vote(ANN, FINANCE), vote(BOB, NOBODYS)], False),
        ((Quorum(2, ("finance",)),), [vote(ANN, FINANCE), vote(BOB, HOST)], True),
        ((Quorum(2), Quorum(1, ("finance",))), [vote(ANN, NOBODYS), vote(BOB, NOBODYS)], False),
        ((Quorum(2), Quorum(1, ("finance",))), [vote(ANN, NOBODYS), vote(BOB, FINANCE)], True),
        ((), [], False),
    ],
)
def test_votes_are_of_different_people_from_the_right_groups(
    quorums: tuple[Quorum, ...], votes: list[Vote], is_enough: bool
) -> None:
    """Two pairs of eyes are two people, and each quorum has to be met."""
    assert is_met(quorums, votes) is is_enough


def test_a_vote_for_other_arguments_begins_anew() -> None:
    """An edit voids the votes before it: nobody has approved what it says."""
    first = cast_vote(None, Approve(), vote(ANN))
    edited = cast_vote(first, Approve({"path": "b"}), vote(BOB))

    assert edited == Ballot(Approve({"path": "b"}), (vote(BOB),))
    assert cast_vote(edited, Approve({"path": "b"}), vote(ANN)).votes == (vote(BOB), vote(ANN))
    with pytest.raises(InvalidDecision, match="already"):
        cast_vote(first, Approve(), Vote(ANN, 2.0))


def test_a_decision_completes_exactly_the_votes_that_there_are() -> None:
    """A store takes the last vote only if nobody has voted, or edited, meanwhile."""
    votes = (vote(ANN), vote(BOB))
    decided = Decided("approval-1", "d", Approve(), BOB, 2.0, votes)

    assert completes(Ballot(Approve(), votes[:1]), decided)
    assert not completes(None, decided)
    assert not completes(Ballot(Approve({"path": "b"}), votes[:1]), decided)
    assert not completes(Ballot(Approve(), (vote(EVE),)), decided)


def test_an_approval_without_its_votes_lets_nothing_run() -> None:
    """Whatever a process may have filed: too few votes are no approval."""
    asked = request(approvers=TWO)
    alone = Decided("approval-1", "d", Approve(), ANN, 1.0, (vote(ANN),))

    with pytest.raises(InvalidDecision, match="2 of"):
        check_votes(asked, alone)
    check_votes(asked, Decided("approval-1", "d", Approve(), BOB, 1.0, (vote(ANN), vote(BOB))))
    check_votes(asked, Decided("approval-1", "d", Deny(), ANN, 1.0))


@pytest.mark.parametrize("count", [0, -1, 21, True])
def test_a_quorum_is_of_a_few_people(count: int) -> None:
    """None and hundreds are mistakes."""
    with pytest.raises(InvalidPolicy, match="approvers"):
        Quorum(count)
