"""Several approvers, groups and four eyes at the gate."""

from typing import Any

import pytest

from tests.calls.payments import Desk, Says, kind_of
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import HOST, Actor, Answer, Approve, Authority, Decided, Deny, Vote
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern import Between
from toolcrib.approval.policy import Policy
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.rule import Rule
from toolcrib.errors import DecisionForbidden, InvalidDecision
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, ApprovalVoted
from toolcrib.session.session import Session

TWO = Policy((Rule("ask", "pay", id="two", approvers=Quorum(2)),))
FINANCE = Policy((Rule("ask", "pay", id="finance", approvers=Quorum(groups=("finance",))),))
IN_FINANCE = Authority(groups=("finance",))


async def approve(desk: Desk, by: str, edited: dict[str, Any] | None = None, **more: Any) -> Any:
    return await desk.session.approvals.decide("c1", Approve(edited), by=by, **more)


async def waiting(desk: Desk) -> Desk:
    assert (await desk.call(5, "c1")).status == "waiting"
    return desk


class TestSeveralApprovers:
    async def test_a_call_runs_after_the_second_yes(self) -> None:
        """One of two leaves it waiting; who voted when is in the ledger."""
        desk = await waiting(Desk(TWO))

        assert await approve(desk, "ann") is None
        still = await desk.executor.resume()
        decided = await approve(desk, "bob")
        (outcome,) = await desk.executor.resume()

        assert [each.status for each in still] == ["waiting"]
        assert decided is not None
        assert outcome.ok
        assert [(each.vote.actor.name, each.votes) for each in desk.events(ApprovalVoted)] == [
            ("ann", 1)
        ]
        (record,) = desk.events(ApprovalDecided)
        assert [vote.actor.name for vote in record.decided.votes] == ["ann", "bob"]

    async def test_one_person_is_one_vote(self) -> None:
        """The same yes twice is refused, and nothing runs."""
        desk = await waiting(Desk(TWO))
        await approve(desk, "ann")

        with pytest.raises(InvalidDecision, match="already"):
            await approve(desk, "ann")
        assert desk.ran == []

    async def test_an_edit_voids_the_votes_before_it(self) -> None:
        """Two people have to approve the same arguments."""
        desk = await waiting(Desk(TWO))
        await approve(desk, "ann")
        await approve(desk, "bob", {"amount": 1})

        assert [each.status for each in await desk.executor.resume()] == ["waiting"]
        await approve(desk, "ann", {"amount": 1})
        (outcome,) = await desk.executor.resume()

        assert outcome.ok
        assert desk.ran == [{"amount": 1, "to": "ada"}]

    async def test_one_no_is_enough(self) -> None:
        """A denial after a yes denies, and the record keeps the yes."""
        desk = await waiting(Desk(TWO))
        await approve(desk, "ann")

        (outcome,) = await desk.decide("c1", Deny("no"))

        assert kind_of(outcome) == "denied"
        (record,) = desk.events(ApprovalDecided)
        assert [vote.actor.name for vote in record.decided.votes] == ["ann"]

    async def test_no_grant_stands_for_two_people(self) -> None:
        """Neither one that is given with the vote nor one that was given before the rule."""
        before = Desk(requires_approval=True)
        await before.call(5, "first")
        await before.decide("first", Approve(), NewGrant("everyone", unlimited=True))
        desk = await waiting(Desk(TWO, session=before.session, requires_approval=True))

        with pytest.raises(DecisionForbidden, match="each time"):
            await approve(desk, "ann", grant=NewGrant("session"))
        assert [each.status for each in await desk.executor.resume()] == ["waiting"]

    async def test_nobody_answers_alone(self) -> None:
        """One of two approvers does not make up a result."""
        desk = await waiting(Desk(TWO))

        with pytest.raises(DecisionForbidden, match="2 of all approvers"):
            await desk.session.approvals.decide("c1", Answer("paid"), by="ann")

    async def test_nobody_answers_alone_for_two_groups(self) -> None:
        """Where two rules demand one of each group, one of finance does not speak for legal."""
        rules = (
            Rule("ask", "pay", id="money", approvers=Quorum(groups=("finance",))),
            Rule("ask", "pay", id="law", approvers=Quorum(groups=("legal",))),
        )
        desk = await waiting(Desk(Policy(rules)))

        with pytest.raises(DecisionForbidden, match="1 of finance and 1 of legal"):
            await desk.session.approvals.decide(
                "c1", Answer("paid"), by="fay", authority=IN_FINANCE
            )
        both = Authority(groups=("finance", "legal"))
        await desk.session.approvals.decide("c1", Answer("paid"), by="eve", authority=both)

    async def test_an_approver_here_is_one_of_the_two(self) -> None:
        """What is asked at once counts as a vote; the call waits for the other."""
        approver = Says(Approve())
        desk = await waiting(Desk(TWO, approver))

        await approve(desk, "bob")
        (outcome,) = await desk.executor.resume()

        assert outcome.ok

    async def test_a_decision_with_too_few_votes_lets_nothing_run(self) -> None:
        """Whatever another process filed in the store is counted again before the call runs."""
        desk = await waiting(Desk(TWO))
        (request,) = desk.session.approvals.pending()
        jo = Actor("person", "jo")
        forged = Decided(
            request.approval_id, request.digest, Approve(), jo, desk.clock(), (Vote(jo, 1.0),)
        )
        assert desk.session.store.decide(forged)

        (outcome,) = await desk.executor.resume()

        assert kind_of(outcome) == "unavailable"
        assert desk.ran == []

    async def test_votes_travel_with_the_session(self) -> None:
        """A state holds the votes so far, and those of a decision that was not acted on."""
        half, whole = await waiting(Desk(TWO)), await waiting(Desk(TWO))
        await approve(half, "ann")
        await approve(whole, "ann")
        await approve(whole, "bob")

        for desk, is_done in ((half, False), (whole, True)):
            session = Session(clock=desk.clock).with_state(desk.session.export_state())
            again = Desk(TWO, session=session)
            if not is_done:
                await approve(again, "bob")
            (outcome,) = await again.executor.resume()
            assert outcome.ok


LARGE = Policy(
    (
        Rule("ask", "pay", id="small"),
        Rule(
            "ask",
            "pay",
            id="large",
            arguments={"/amount": Between(min=100)},
            approvers=Quorum(groups=("finance",)),
        ),
    )
)


class TestEdits:
    @pytest.mark.parametrize("authority", [Authority(), IN_FINANCE], ids=["other", "finance"])
    async def test_an_edit_does_not_lead_past_the_approvers(self, authority: Authority) -> None:
        """Who may approve small amounts does not make a large one of it."""
        desk = await waiting(Desk(LARGE))

        await approve(desk, "eve", {"amount": 100}, authority=authority)
        (outcome,) = await desk.executor.resume()

        is_finance = authority == IN_FINANCE
        assert kind_of(outcome) == ("completed" if is_finance else "not_permitted")
        assert len(desk.ran) == is_finance

    async def test_a_rule_that_came_since_counts(self) -> None:
        """A yes of one person is not enough by the time two have to give it."""
        before = await waiting(Desk(requires_approval=True))
        await approve(before, "ann")
        desk = Desk(TWO, session=before.session, requires_approval=True)

        (outcome,) = await desk.executor.resume()

        assert kind_of(outcome) == "not_permitted"
        assert desk.ran == before.ran == []


class TestGroups:
    async def test_only_the_group_decides(self) -> None:
        """The request says who; others neither approve nor deny."""
        desk = await waiting(Desk(FINANCE))
        (asked,) = desk.events(ApprovalRequested)

        assert asked.request.approvers == (Quorum(groups=("finance",)),)
        with pytest.raises(DecisionForbidden, match="finance"):
            await approve(desk, "eve", authority=Authority(groups=("desk",)))
        await approve(desk, "ann", authority=IN_FINANCE)
        (outcome,) = await desk.executor.resume()
        assert outcome.ok

    async def test_a_grant_from_outside_the_group_does_not_count(self) -> None:
        """A grant for small amounts by somebody else is no yes of finance to large ones."""
        desk = await waiting(Desk(LARGE))
        await approve(desk, "eve", grant=NewGrant("session"), authority=Authority())
        await desk.executor.resume()

        assert (await desk.call(5)).status == "completed"
        assert (await desk.call(100)).status == "waiting"

    async def test_a_grant_of_the_group_does(self) -> None:
        """Finance may say yes for later, too."""
        desk = await waiting(Desk(FINANCE))
        await approve(desk, "ann", grant=NewGrant("session"), authority=IN_FINANCE)

        assert (await desk.call(7)).status == "completed"


class TestFourEyes:
    @pytest.mark.parametrize("may", [False, True])
    async def test_the_asker_does_not_approve(self, may: bool) -> None:
        """Security 10: unless the session says that people may approve their own calls."""
        desk = Desk(requires_approval=True, session=Session(approve_own_calls=may))
        await desk.executor.call("pay", {"amount": 5}, call_id="c1", caller=Caller("ann"))

        if not may:
            with pytest.raises(DecisionForbidden, match="somebody else"):
                await approve(desk, "ann")
            await approve(desk, "bob")
        else:
            await approve(desk, "ann")
        (outcome,) = await desk.executor.resume()
        assert outcome.ok

    async def test_an_approver_that_speaks_for_the_asker_is_not_obeyed(self) -> None:
        """An inbox that hands the asker's own yes back lets nothing run."""
        desk = Desk(approver=Says(Approve()), requires_approval=True)

        outcome = await desk.executor.call("pay", {"amount": 5}, caller=Caller("jo"))

        assert outcome.status == "waiting"
        assert desk.ran == []

    async def test_a_grant_does_not_cover_its_givers_calls(self) -> None:
        """Security 9, 10: what ann gives to everybody is not for ann."""
        desk = await waiting(Desk(requires_approval=True))
        grant = NewGrant("everyone", unlimited=True)
        await approve(desk, "ann", grant=grant, authority=HOST)

        theirs = await desk.executor.call("pay", {"amount": 5}, caller=Caller("bob"))
        hers = await desk.executor.call("pay", {"amount": 5}, caller=Caller("ann"))

        assert (theirs.status, hers.status) == ("completed", "waiting")

    async def test_a_grant_for_a_principal_is_for_nobody_else(self) -> None:
        """Security 9: bob's calls are asked about, whatever was granted to alice."""
        desk = Desk(requires_approval=True)
        await desk.executor.call("pay", {"amount": 5}, call_id="c1", caller=Caller("alice"))
        await approve(desk, "carol", grant=NewGrant("principal"))

        alice = await desk.executor.call("pay", {"amount": 5}, caller=Caller("alice"))
        bob = await desk.executor.call("pay", {"amount": 5}, caller=Caller("bob"))

        assert (alice.status, bob.status) == ("completed", "waiting")


class TestClock:
    async def test_a_clock_set_back_revives_no_grant(self) -> None:
        """Security 20: once a call has found the grant expired, the clock changes nothing."""
        desk = await waiting(Desk(requires_approval=True))
        grant = NewGrant("everyone", expires_in_seconds=60)
        await approve(desk, "ann", grant=grant)
        desk.clock.advance(60)
        assert (await desk.call()).status == "waiting"

        desk.clock.advance(-3600)

        assert (await desk.call()).status == "waiting"

    async def test_a_clock_set_back_revives_no_request(self) -> None:
        """Security 20: a request that was seen too late stays too late."""
        desk = await waiting(Desk(Policy((Rule("ask", "pay", deadline_seconds=60),))))
        desk.clock.advance(60)
        assert desk.session.approvals.pending() == []

        desk.clock.advance(-3600)

        with pytest.raises(InvalidDecision, match="expired"):
            await approve(desk, "ann")
        (outcome,) = await desk.executor.resume()
        assert kind_of(outcome) == "expired"


class TestPreview:
    async def test_a_preview_compares_with_past_calls(self) -> None:
        """Newest first, bounded, with the pointers that lead nowhere; nothing is granted."""
        desk = Desk(approver=Says(Approve()), requires_approval=True)
        for amount in (5, 50, 7, 500):
            await desk.call(amount)
        desk = await waiting(Desk(session=desk.session, requires_approval=True))
        (request,) = desk.session.approvals.pending()

        small = NewGrant("session", {"/amount": Between(max=50)})
        preview = desk.session.approvals.preview(request, small, limit=2)
        wrong = desk.session.approvals.preview(
            request, NewGrant("session", {"/amuont": Between(max=50)})
        )

        assert [call.arguments["amount"] for call in preview.covered] == [7, 50]
        assert (preview.covered_count, preview.looked_at) == (3, 4)
        assert (preview.unknown_arguments, wrong.unknown_arguments) == ((), ("/amuont",))
        assert (wrong.covered, desk.session.approvals.grants()) == ((), [])
