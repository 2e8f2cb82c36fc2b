"""Standing permissions at the gate: what they cover, when they end, and what beats them."""

from typing import Any

import pytest

from tests.calls.payments import Desk, Says, kind_of
from toolcrib.approval.decision import Actor, Approve, Decided, Deny
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern import Between
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.errors import InvalidDecision, UsageError
from toolcrib.ledger.events import ApprovalDecided, GrantChanged, ToolInvoked
from toolcrib.session.session import Session
from toolcrib.store import MemoryStore
from toolcrib.testing import FakeClock
from toolcrib.tools.decorator import tool

ANYBODY = NewGrant("everyone", unlimited=True)
NO_PAYMENTS = Policy((Rule("deny", "pay", id="no payments"),))


async def granted(grant: NewGrant, **rules: Any) -> Desk:
    """A desk where one call was approved with a grant, and ran."""
    desk = Desk(requires_approval=True, **rules)
    await desk.call(5, "first")
    (outcome,) = await desk.decide("first", Approve(), grant)
    assert outcome.ok
    desk.ran.clear()
    return desk


class TestScope:
    @pytest.mark.parametrize(
        ("grant", "here", "elsewhere"),
        [
            (NewGrant("once"), "waiting", "waiting"),
            (NewGrant("session"), "completed", "waiting"),
            (ANYBODY, "completed", "completed"),
        ],
        ids=["once", "session", "everyone"],
    )
    async def test_a_grant_holds_where_it_was_given(
        self, grant: NewGrant, here: str, elsewhere: str
    ) -> None:
        """R42: once is the one call, session is the session, everyone spans sessions."""
        desk = await granted(grant)

        async with Session(store=desk.session.store, clock=desk.clock) as other:
            there = Executor(other, [desk.pay])
            assert (await desk.call()).status == here
            assert (await there.call("pay", {"amount": 5})).status == elsewhere

    async def test_a_permission_for_one_call_does_not_cover_its_id_again(self) -> None:
        """Models repeat call ids; the same id with other arguments, in another turn, is another
        call. From anybody else it is a mistake.
        """
        desk = await granted(NewGrant("once"))

        with pytest.raises(UsageError, match="'first' is of another call"):
            await desk.call(999, "first")
        with desk.executor.turn():
            assert (await desk.call(999, "first")).status == "waiting"
        assert desk.ran == []

    async def test_a_grant_for_one_waiting_call_is_used_up_by_it(self) -> None:
        """A single permission given without a decision lets that call run, and no other."""
        desk = Desk(requires_approval=True)
        asked = await desk.call(5, "c1")
        assert asked.approval is not None
        await desk.session.approvals.grant(
            asked.approval, NewGrant("once"), by=Actor("person", "jo")
        )

        assert [kind_of(each) for each in await desk.executor.resume()] == ["completed"]
        assert (await desk.call(5, "c2")).status == "waiting"
        assert len(desk.ran) == 1

    async def test_a_session_grant_travels_with_the_session(self) -> None:
        """T49: what was granted for the session is part of its state."""
        desk = await granted(NewGrant("session"))
        state = desk.session.export_state()

        session = Session(clock=desk.clock).with_state(state)

        assert (await Executor(session, [desk.pay]).call("pay", {"amount": 5})).ok


class TestBounds:
    async def test_patterns_bound_the_arguments(self) -> None:
        """A grant for small amounts says nothing about large ones."""
        desk = await granted(NewGrant("session", {"/amount": Between(max=10)}))

        assert (await desk.call(10)).status == "completed"
        assert (await desk.call(11)).status == "waiting"

    async def test_a_grant_ends_with_its_time(self) -> None:
        """What was allowed for an hour is asked about after an hour."""
        desk = await granted(NewGrant("everyone", expires_in_seconds=3600))

        desk.clock.advance(3599)
        assert (await desk.call()).status == "completed"
        desk.clock.advance(1)
        assert (await desk.call()).status == "waiting"
        assert desk.session.approvals.grants() == []

    async def test_a_grant_ends_with_its_uses(self) -> None:
        """Two uses are two calls."""
        desk = await granted(NewGrant("session", uses=2))

        calls = [await desk.call() for _ in range(3)]

        assert [each.status for each in calls] == ["completed", "completed", "waiting"]

    async def test_calls_that_go_on_together_share_its_uses(self) -> None:
        """One use is one call, also when several calls that waited look for it at once."""
        desk = Desk(requires_approval=True)
        for number in (1, 2, 3):
            await desk.call(number, f"c{number}")

        outcomes = await desk.decide("c1", Approve(), NewGrant("session", uses=1))

        assert sorted(kind_of(each) for each in outcomes) == ["completed", "completed", "waiting"]
        assert len(desk.ran) == 2

    async def test_a_revoked_grant_is_void_at_once(self) -> None:
        """Revoking works on the next call, and only once."""
        desk = await granted(ANYBODY)
        (grant,) = desk.session.approvals.grants()

        assert await desk.session.approvals.revoke(grant.grant_id, by="ada")

        assert (await desk.call()).status == "waiting"
        assert not await desk.session.approvals.revoke(grant.grant_id, by="ada")
        assert not await desk.session.approvals.revoke("unknown", by="ada")

    async def test_a_changed_tool_is_not_covered(self) -> None:
        """R50: the yes was for what the tool promised then."""
        desk = await granted(ANYBODY)

        @tool(requires_approval=True)
        async def pay(amount: int, to: str = "ada", secretly: bool = False) -> str:
            """Pay somebody."""
            desk.ran.append("changed")
            return "paid"

        desk.executor.replace(pay)

        assert (await desk.call()).status == "waiting"
        assert desk.ran == []

    async def test_a_namesake_is_not_covered(self) -> None:
        """The same tool from another source is another tool."""
        desk = await granted(ANYBODY)
        namesake = Desk(session=desk.session, source="mcp:shop", requires_approval=True)

        assert (await desk.call()).status == "completed"
        assert (await namesake.call()).status == "waiting"


class TestPrecedence:
    async def test_deny_beats_a_grant(self) -> None:
        """No standing yes lifts a deny rule."""
        desk = await granted(ANYBODY)
        strict = Desk(NO_PAYMENTS, session=desk.session, requires_approval=True)

        assert kind_of(await strict.call()) == "not_permitted"

    async def test_an_exact_no_beats_a_grant(self) -> None:
        """Of two calls that wait, one is allowed with a grant and the other is denied: the
        denied one does not run.
        """
        desk = Desk(requires_approval=True)
        await desk.call(1, "c1")
        await desk.call(2, "c2")
        await desk.session.approvals.decide("c2", Deny("not this one"), by="jo")

        outcomes = await desk.decide("c1", Approve(), ANYBODY)

        assert [kind_of(each) for each in outcomes] == ["completed", "denied"]
        assert desk.ran == [{"amount": 1, "to": "ada"}]

    async def test_a_grant_answers_a_call_that_waits_in_the_ledger_too(self) -> None:
        """What a grant decides is decided: the ledger says so, and nobody can deny it in vain."""
        desk = Desk(requires_approval=True)
        await desk.call(1, "c1")
        await desk.call(2, "c2")

        await desk.decide("c1", Approve(), NewGrant("session"))

        (grant,) = desk.session.approvals.grants()
        by_grant = Actor("grant", grant.grant_id)
        assert [each.decided.actor for each in desk.events(ApprovalDecided)][1:] == [by_grant]
        with pytest.raises(InvalidDecision, match="decided already"):
            await desk.session.approvals.decide("c2", Deny(), by="jo")

    async def test_nobody_denies_a_call_that_a_grant_lets_run(self) -> None:
        """While the handler runs, its request is no longer open: a no that comes too late is
        refused, not accepted and ignored.
        """
        desk = Desk(requires_approval=True)
        late: list[BaseException] = []

        @tool(requires_approval=True)
        async def drain() -> str:
            """Drain."""
            try:
                await desk.session.approvals.decide("c2", Deny(), by="jo")
            except InvalidDecision as error:
                late.append(error)
            return "drained"

        desk.executor.register(drain)
        await desk.executor.call("drain", call_id="c1")
        await desk.executor.call("drain", call_id="c2")
        await desk.session.approvals.decide(
            "c1", Approve(), by="jo", grant=NewGrant("session", uses=1)
        )

        await desk.executor.resume(["c2"])

        assert [str(each) for each in late] != []
        assert "decided already" in str(late[0])

    async def test_a_person_who_is_faster_than_a_grant_is_obeyed(self) -> None:
        """A no that is filed while a grant is being looked up counts."""

        class Faster(MemoryStore):
            def decide(self, decided: Decided) -> bool:
                if decided.actor.kind == "grant":
                    jo = Actor("person", "jo")
                    super().decide(
                        Decided(decided.approval_id, decided.digest, Deny("no"), jo, decided.at)
                    )
                return super().decide(decided)

        clock = FakeClock()
        session = Session(clock=clock, store=Faster(clock=clock))
        desk = Desk(session=session, requires_approval=True)
        await desk.call(1, "c1")
        await desk.call(2, "c2")

        outcomes = await desk.decide("c1", Approve(), ANYBODY)

        assert [kind_of(each) for each in outcomes] == ["completed", "denied"]
        assert desk.ran == [{"amount": 1, "to": "ada"}]

    async def test_a_grant_does_not_revive_an_expired_request(self) -> None:
        """The deadline has passed for a later grant as well."""
        policy = Policy((Rule("ask", "pay", deadline_seconds=60),))
        desk = Desk(policy)
        await desk.call(1, "c1")
        desk.clock.advance(60)
        await desk.call(2, "c2")

        outcomes = await desk.decide("c2", Approve(), ANYBODY)

        assert [kind_of(each) for each in outcomes] == ["expired", "completed"]
        assert desk.ran == [{"amount": 2, "to": "ada"}]


class TestRecord:
    async def test_made_used_and_revoked_are_recorded(self) -> None:
        """Who made a grant, what it let run, and who took it back can be read afterwards."""
        desk = await granted(NewGrant("session"))
        (grant,) = desk.session.approvals.grants()
        await desk.call(call_id="c2")
        await desk.session.approvals.revoke(grant.grant_id, by="ada")

        jo, ada = Actor("person", "jo"), Actor("person", "ada")
        by_grant = Actor("grant", grant.grant_id)
        assert [(each.change, each.actor, each.call_id) for each in desk.events(GrantChanged)] == [
            ("made", jo, None),
            ("used", by_grant, "c2"),
            ("revoked", ada, None),
        ]
        assert [each.decided_by for each in desk.events(ToolInvoked)] == [jo, by_grant]

    async def test_an_approver_can_grant_at_once(self) -> None:
        """An answer with a grant is asked for once."""
        approver = Says(Approve(), NewGrant("session"))
        desk = Desk(approver=approver, requires_approval=True)

        await desk.call(1)
        await desk.call(2)

        assert (len(approver.asked), len(desk.ran)) == (1, 2)

    async def test_a_grant_goes_with_a_yes_only(self) -> None:
        """A no with a standing yes makes no sense and is refused; nothing is decided."""
        desk = Desk(requires_approval=True)
        await desk.call(call_id="c1")

        with pytest.raises(InvalidDecision, match="with an approval only"):
            await desk.session.approvals.decide("c1", Deny(), by="jo", grant=NewGrant("session"))

        assert len(desk.session.approvals.pending()) == 1
        assert desk.session.approvals.grants() == []
