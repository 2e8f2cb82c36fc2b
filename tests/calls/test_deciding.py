"""Decisions: in time, by somebody, about exactly this call, and one of them counts."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.calls.payments import JO, Desk, Says, kind_of
from toolcrib.approval.approvers import Reply
from toolcrib.approval.decision import (
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Decided,
    Deny,
    Expire,
)
from toolcrib.approval.policy import Policy, Rule
from toolcrib.errors import InvalidDecision
from toolcrib.ledger.events import ApprovalDecided
from toolcrib.session.session import Session
from toolcrib.store import MemoryStore, SqliteStore
from toolcrib.testing import FakeClock, run_in_virtual_time


class TestDeadline:
    POLICY = Policy((Rule("ask", "pay", deadline_seconds=60),))

    async def test_expired_is_not_denied(self) -> None:
        """Nobody said no: the failure and the actor say that the clock decided."""
        desk = Desk(self.POLICY)
        await desk.call(call_id="c1")

        desk.clock.advance(59.9)
        (still,) = await desk.executor.resume()
        desk.clock.advance(0.1)
        (outcome,) = await desk.executor.resume()

        assert (still.status, kind_of(outcome)) == ("waiting", "expired")
        (decided,) = desk.events(ApprovalDecided)
        assert decided.decided.decision == Expire()
        assert decided.decided.actor == Actor("timeout", "deadline")
        assert desk.ran == []

    async def test_a_late_decision_is_refused(self) -> None:
        """A yes after the deadline is told so, and the call is expired."""
        desk = Desk(self.POLICY)
        await desk.call(call_id="c1")
        desk.clock.advance(60)

        with pytest.raises(InvalidDecision, match="expired"):
            await desk.session.approvals.decide("c1", Approve(), by="jo")

        (outcome,) = await desk.executor.resume()
        assert kind_of(outcome) == "expired"

    async def test_a_decision_in_time_holds_however_late_the_call_goes_on(self) -> None:
        """The deadline is for the decision, not for running."""
        desk = Desk(self.POLICY)
        await desk.call(call_id="c1")
        await desk.session.approvals.decide("c1", Approve(), by="jo")
        desk.clock.advance(10_000)

        assert [kind_of(each) for each in await desk.executor.resume()] == ["completed"]

    def test_an_approver_that_takes_too_long_is_not_waited_for(self) -> None:
        """The deadline also bounds an approver that is being asked right now."""

        class Ponders:
            async def ask(self, request: ApprovalRequest) -> Reply | None:
                await asyncio.Event().wait()
                return None

        async def main() -> tuple[str, list[object]]:
            loop = asyncio.get_running_loop()
            session = Session(clock=loop.time)
            desk = Desk(self.POLICY, Ponders(), session=session)
            return kind_of(await desk.call()), desk.ran

        assert run_in_virtual_time(main()) == ("expired", [])


class TestDeciding:
    async def test_only_one_of_racing_deciders_wins(self, sqlite_path: Path) -> None:
        """Of several decisions exactly one is taken; the others are told, and it is what counts."""
        with SqliteStore(sqlite_path) as store:
            async with await Session.open(store, "s") as session:
                desk = Desk(session=session, requires_approval=True)
                await desk.call(call_id="c1")

                replies = await asyncio.gather(
                    *(
                        session.approvals.decide("c1", Deny(name), by=name)
                        for name in ("ada", "bob", "cy")
                    ),
                    return_exceptions=True,
                )
                (outcome,) = await desk.executor.resume()

        (won,) = [each for each in replies if isinstance(each, Decided)]
        assert sum(isinstance(each, InvalidDecision) for each in replies) == 2
        assert (kind_of(outcome), outcome.text) == ("denied", won.actor.name)

    async def test_a_decision_is_final(self) -> None:
        """After no, yes is too late; and what was used cannot be decided again."""
        desk = Desk(requires_approval=True)
        await desk.call(call_id="c1")
        await desk.session.approvals.decide("c1", Deny(), by="jo")
        for _ in range(2):
            with pytest.raises(InvalidDecision, match="decided already"):
                await desk.session.approvals.decide("c1", Approve(), by="bob")
            await desk.executor.resume()

        assert desk.ran == []

    async def test_a_decision_is_for_what_its_maker_saw(self) -> None:
        """T44: with the digest of another call the decision is refused and nothing changes."""
        desk = Desk(requires_approval=True)
        await desk.call(1, "c1")
        other = await desk.call(2, "c2")
        assert other.approval is not None

        with pytest.raises(InvalidDecision, match="another call"):
            await desk.session.approvals.decide(
                "c1", Approve(), by="jo", digest=other.approval.digest
            )

        assert [each.status for each in await desk.executor.resume()] == ["waiting", "waiting"]

    async def test_a_call_id_cannot_pass_for_a_request(self) -> None:
        """Whoever names a call does not get the yes that was meant for another."""
        desk = Desk(requires_approval=True)
        asked = await desk.call(1, "c1")
        assert asked.approval is not None
        await desk.call(666, asked.approval.approval_id)

        await desk.decide(asked.approval.approval_id, Approve())

        assert desk.ran == [{"amount": 1, "to": "ada"}]

    @pytest.mark.parametrize(
        "by", ["", " ", cast("Any", None), Actor("grant", "g1"), Actor("timeout", "deadline")]
    )
    async def test_every_decision_has_a_maker(self, by: Any) -> None:
        """Nobody decides without a name, and nobody passes for a grant or the clock."""
        desk = Desk(requires_approval=True)
        await desk.call(call_id="c1")

        with pytest.raises(InvalidDecision, match="who decides"):
            await desk.session.approvals.decide("c1", Approve(), by=by)

        assert desk.session.approvals.pending() != []

    async def test_nobody_but_the_clock_expires_a_request(self) -> None:
        """Expire is not a way to say no without a name."""
        desk = Desk(requires_approval=True)
        await desk.call(call_id="c1")

        with pytest.raises(InvalidDecision, match="only the clock"):
            await desk.session.approvals.decide("c1", Expire(), by="jo")

    async def test_an_answer_is_kept_as_it_was_given(self) -> None:
        """A decision is copied: changing it afterwards changes neither result nor record."""
        desk = Desk(requires_approval=True)
        await desk.call(call_id="c1")
        value = {"paid": [1]}
        await desk.session.approvals.decide("c1", Answer(value), by="jo")
        value["paid"].append(2)

        (outcome,) = await desk.executor.resume()

        assert outcome.value == {"paid": [1]}
        assert desk.events(ApprovalDecided)[0].decided.decision == Answer({"paid": [1]})

    async def test_a_decision_filed_by_hand_is_checked_before_it_is_obeyed(self) -> None:
        """Another process may file any edit; what does not fit ends the call, and is not
        written down.
        """
        desk = Desk(requires_approval=True)
        asked = await desk.call(call_id="c1")
        assert asked.approval is not None
        edit = Approve({"amount": "much"})
        unchecked = Decided(asked.approval.approval_id, asked.approval.digest, edit, JO, 1.0)
        assert desk.session.store.decide(unchecked)

        (outcome,) = await desk.executor.resume()

        assert kind_of(outcome) == "invalid_arguments"
        assert desk.ran == desk.events(ApprovalDecided) == []


class Faster(MemoryStore):
    """A store in which a person always decides just before a rule does."""

    def decide(self, decided: Decided) -> bool:
        super().decide(Decided(decided.approval_id, decided.digest, Approve(), JO, decided.at))
        return super().decide(decided)


async def test_a_person_who_is_faster_than_the_default_is_obeyed() -> None:
    """Denying what nobody answered is a decision like others: it does not win over an earlier."""
    clock = FakeClock()
    session = Session(clock=clock, store=Faster(clock=clock), unanswered="deny")
    desk = Desk(session=session, requires_approval=True)

    assert kind_of(await desk.call()) == "completed"
    assert [each.decided.actor for each in desk.events(ApprovalDecided)] == [JO]


async def test_an_answer_that_comes_too_late_gives_way() -> None:
    """Of an approver's no and an earlier yes, what was filed first counts; nothing runs twice."""
    clock = FakeClock()
    session = Session(clock=clock, store=Faster(clock=clock))
    desk = Desk(session=session, approver=Says(Deny()), requires_approval=True)

    assert kind_of(await desk.call()) == "completed"
    assert [each.decided.actor for each in desk.events(ApprovalDecided)] == [JO]
    assert len(desk.ran) == 1
