"""A decision is bound to the tool that it was about; once that changed, people are asked again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import pytest

from tests.calls.payments import Says, kind_of
from tests.calls.places import history
from tests.sandbox import handlers
from toolcrib import Executor, Session, tool
from toolcrib.approval.decision import Answer, Approve, Decision, Deny
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.outcome import Outcome
from toolcrib.errors import InvalidDecision
from toolcrib.host_tools import HostToolDefinition
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalSuperseded,
    ToolInvoked,
)
from toolcrib.session.state import export_state, restore_state
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.secrets import Secret

ASK = Policy((Rule("ask", "*"),))


def pay(ran: list[object], *, version: str = "1.0.0", **rules: Any) -> FunctionTool[Any, Any]:
    @tool(name="pay", version=version, **rules)
    async def handler(amount: int) -> str:
        """Pay somebody."""
        ran.append(("paid", amount))
        return "paid"

    return handler


def pay_otherwise(ran: list[object], **rules: Any) -> FunctionTool[Any, Any]:
    """The same name, description, schema and version, with other code."""

    @tool(name="pay", version="1.0.0", **rules)
    async def handler(amount: int) -> str:
        """Pay somebody."""
        ran.append(("paid twice", amount))
        return "paid"

    return handler


async def waiting_call(session: Session, declared: Any, **arguments: Any) -> Outcome:
    executor = Executor(session, [declared], policy=ASK)
    outcome = await executor.call("pay", arguments or {"amount": 1}, call_id="c1")
    assert outcome.status == "waiting"
    return outcome


class TestWaitingCalls:
    async def test_other_code_of_the_same_version_is_asked_about(self) -> None:
        """Finding 3: after a hot swap the yes for the old code lets the new code not run."""
        session, ran = Session(), list[object]()
        executor = Executor(session, [pay(ran)], policy=ASK)
        first = await executor.call("pay", {"amount": 1}, call_id="c1")
        assert first.approval is not None
        await session.approvals.decide("c1", Approve(), by="ann")
        executor.unregister("pay")
        executor.register(pay_otherwise(ran))

        (outcome,) = await executor.resume()

        assert (outcome.status, ran) == ("waiting", [])
        assert outcome.approval is not None
        assert outcome.approval.approval_id != first.approval.approval_id
        assert any("code" in line for line in outcome.approval.changes)
        assert outcome.approval.supersedes == first.approval.approval_id

    async def test_a_handler_that_cannot_be_told_from_the_old_one_is_asked_about(self) -> None:
        """Finding 3: two objects of one class hide what they do; a swap of them is noticed."""
        session, ran = Session(), [list[object](), list[object]()]
        executor = Executor(session, [pay(ran[0])], policy=ASK)
        await executor.call("pay", {"amount": 1}, call_id="c1")
        await session.approvals.decide("c1", Approve(), by="ann")
        executor.replace(pay(ran[1]))

        (outcome,) = await executor.resume()

        assert (outcome.status, ran) == ("waiting", [[], []])
        assert outcome.approval is not None
        assert outcome.approval.changes == ("registration: not set -> 2",)

    async def test_a_new_yes_runs_the_new_tool_once(self) -> None:
        """The new request is decided like any other, and the record says all of it."""
        session, ran = Session(), list[object]()
        first = await waiting_call(session, pay(ran))
        assert first.approval is not None
        await session.approvals.decide("c1", Approve(), by="ann")
        executor = Executor(session, [pay(ran, version="1.1.0")], policy=ASK)
        (asked,) = await executor.resume()
        assert asked.approval is not None
        await session.approvals.decide("c1", Approve(), by="bob")

        (outcome,) = await executor.resume()

        assert (kind_of(outcome), ran) == ("completed", [("paid", 1)])
        assert asked.approval.changes == ("version: 1.0.0 -> 1.1.0",)
        kinds = (ApprovalRequested, ApprovalSuperseded, ApprovalDecided, ToolInvoked)
        told = [event for event in history(session) if isinstance(event, kinds)]
        assert [type(event) for event in told] == [
            ApprovalRequested,
            ApprovalRequested,
            ApprovalSuperseded,
            ApprovalDecided,
            ToolInvoked,
        ]
        superseded, decided = told[2], told[3]
        assert isinstance(superseded, ApprovalSuperseded)
        assert superseded.void is not None
        assert superseded.void.actor.name == "ann"
        assert superseded.superseded_by == asked.approval.approval_id
        assert isinstance(decided, ApprovalDecided)
        assert decided.decided.actor.name == "bob"
        assert session.open_calls() == session.approvals.pending() == []

    async def test_the_earlier_request_takes_no_decision_any_more(self) -> None:
        """Whoever still looks at the old question cannot answer the new one with it."""
        session, ran = Session(), list[object]()
        first = await waiting_call(session, pay(ran))
        assert first.approval is not None
        executor = Executor(session, [pay(ran, version="1.1.0")], policy=ASK)
        (asked,) = await executor.resume()
        assert asked.approval is not None

        with pytest.raises(InvalidDecision):
            await session.approvals.decide(first.approval.approval_id, Approve(), by="ann")
        with pytest.raises(InvalidDecision, match="look at it again"):
            await session.approvals.decide("c1", Approve(), by="ann", digest=first.approval.digest)

        assert [each.approval_id for each in session.approvals.pending()] == [
            asked.approval.approval_id
        ]
        assert ran == []

    @pytest.mark.parametrize("decision", [Approve(), Approve({"amount": 2}), Answer("paid")])
    async def test_whatever_was_decided_but_a_no_is_void(self, decision: Decision) -> None:
        """An edit and an answer in the tool's place were about the old tool too."""
        session, ran = Session(), list[object]()
        await waiting_call(session, pay(ran))
        await session.approvals.decide("c1", decision, by="ann")

        (outcome,) = await Executor(session, [pay(ran, version="1.1.0")]).resume()

        assert (outcome.status, ran) == ("waiting", [])

    async def test_a_no_stays_a_no(self) -> None:
        """Nobody is asked again about a call that was denied."""
        session, ran = Session(), list[object]()
        await waiting_call(session, pay(ran))
        await session.approvals.decide("c1", Deny("never"), by="ann")

        (outcome,) = await Executor(session, [pay(ran, version="1.1.0")]).resume()

        assert (kind_of(outcome), ran) == ("denied", [])
        assert outcome.failure is not None
        assert outcome.failure.message == "never"
        assert session.open_calls() == session.approvals.pending() == []

    async def test_a_deny_rule_of_now_ends_the_call(self) -> None:
        """What the policy forbids is not asked about."""
        session, ran = Session(), list[object]()
        await waiting_call(session, pay(ran))
        deny = Policy((Rule("deny", "pay"),))

        (outcome,) = await Executor(session, [pay(ran, version="1.1.0")], policy=deny).resume()

        assert (kind_of(outcome), ran) == ("not_permitted", [])

    async def test_a_tool_that_needs_no_approval_by_now_is_asked_about_too(self) -> None:
        """The call waited for a yes; that the tool lost its rule does not give it one."""
        session, ran = Session(), list[object]()
        await waiting_call(session, pay(ran, requires_approval=True))

        (outcome,) = await Executor(session, [pay(ran)]).resume()

        assert (outcome.status, ran) == ("waiting", [])
        assert outcome.approval is not None
        assert outcome.approval.changes == ("requires_approval: on -> off",)
        assert outcome.approval.rule == "tool_changed"

    async def test_an_approver_sees_what_changed(self) -> None:
        """The line for people is in the request that an approver gets."""
        session, ran, ann = Session(), list[object](), Says(Approve())
        await waiting_call(session, pay(ran))
        executor = Executor(session, [pay(ran, version="1.1.0")], policy=ASK, approver=ann)

        (outcome,) = await executor.resume()

        assert (kind_of(outcome), ran) == ("completed", [("paid", 1)])
        assert [request.changes for request in ann.asked] == [("version: 1.0.0 -> 1.1.0",)]

    async def test_secrets_are_not_handed_to_a_tool_that_does_not_know_them(self) -> None:
        """With other arguments the new tool may not know which are secret: the call ends."""
        session = Session()

        @tool(name="pay")
        async def login(token: Annotated[str, Secret()]) -> str:
            """Log in."""
            return token

        @tool(name="pay")
        async def login_by_hand(token: str) -> str:
            """Log in."""
            return token

        await waiting_call(session, login, token="hunter2-hunter2")

        (outcome,) = await Executor(session, [login_by_hand], policy=ASK).resume()

        assert kind_of(outcome) == "unavailable"
        assert not any(b"hunter2" in (each.payload or b"") for each in session.records())

    async def test_a_host_that_deploys_by_version_is_not_asked_about_code(self) -> None:
        """Bound to the version, other code of the same version runs under the yes; another
        version does not.
        """
        session, ran = Session(), list[object]()
        bound: dict[str, Any] = {"policy": ASK, "bind_to": "version"}
        for call_id in ("c1", "c2"):
            await Executor(session, [pay(ran)], **bound).call("pay", {"amount": 1}, call_id=call_id)
            await session.approvals.decide(call_id, Approve(), by="ann")

        (swapped,) = await Executor(session, [pay_otherwise(ran)], **bound).resume(["c1"])
        (raised,) = await Executor(session, [pay(ran, version="1.0.1")], **bound).resume(["c2"])

        assert (kind_of(swapped), ran) == ("completed", [("paid twice", 1)])
        assert raised.status == "waiting"


class TestGrants:
    async def grant(self, session: Session, declared: Any, name: str) -> None:
        await Executor(session, [declared], policy=ASK).call(name, {}, call_id="g")
        await session.approvals.decide(
            "g", Approve(), by="ann", grant=NewGrant("everyone", unlimited=True)
        )

    @staticmethod
    def whoami(handler: Callable[..., Any] = handlers.later, **options: Any) -> HostToolDefinition:
        defaults: dict[str, Any] = {"version": "1.0.0"}
        return HostToolDefinition(
            name="whoami",
            description="Say who runs this.",
            parameters={"type": "object"},
            handler=handler,
            **{**defaults, **options},
        )

    @pytest.mark.parametrize(
        ("changed", "line"),
        [
            ({"sandbox": False, "version": "2.0.0"}, "version: 1.0.0 -> 2.0.0"),
            ({"sandbox": False}, "sandbox: on -> off"),
            ({"sandbox": {"network": True}}, "sandbox_options.network: off -> on"),
            ({"sandbox": {"readable": ["/etc"]}}, "sandbox_options.readable: not set -> '/etc'"),
            ({"sandbox": True, "handler": handlers.add}, "code: "),
        ],
    )
    async def test_a_grant_for_a_sandboxed_tool_covers_no_other(
        self, changed: dict[str, Any], line: str
    ) -> None:
        """Findings 2 and "a grant survives `network: true`": whatever takes the sandbox away or
        opens it is asked about, and the request names the grant and the change.
        """
        session = Session()
        await self.grant(session, self.whoami(sandbox=True), "whoami")
        executor = Executor(session, [self.whoami(**changed)], policy=ASK)

        outcome = await executor.call("whoami", {})

        assert outcome.status == "waiting"
        assert outcome.approval is not None
        mention, *changes = outcome.approval.changes
        assert mention.startswith("a grant by ann of ")
        assert any(each.startswith(line) for each in changes)

    async def test_a_grant_covers_the_tool_that_it_was_given_for(self) -> None:
        """The same definition, made again as another process would, is the same tool."""
        session, ran = Session(), list[object]()
        await Executor(session, [pay(ran)], policy=ASK).call("pay", {"amount": 1}, call_id="g")
        await session.approvals.decide(
            "g", Approve(), by="ann", grant=NewGrant("everyone", unlimited=True)
        )

        outcome = await Executor(session, [pay(ran)], policy=ASK).call("pay", {"amount": 2})

        assert (kind_of(outcome), ran) == ("completed", [("paid", 2)])

    async def test_a_first_question_has_no_changes(self) -> None:
        """Only what was decided about before can have changed."""
        outcome = await waiting_call(Session(), pay([]))

        assert outcome.approval is not None
        assert (outcome.approval.changes, outcome.approval.supersedes) == ((), None)


@pytest.mark.parametrize("was_idempotent", [False, True])
async def test_a_tool_that_became_idempotent_is_still_asked_about(was_idempotent: bool) -> None:
    """Finding 21: the idempotency that counts is that of the tool when its call started."""
    session, ran = Session(), list[object]()
    await waiting_call(session, pay(ran, is_idempotent=was_idempotent))
    state = export_state(session)
    cut_off = tuple(
        replace(call, state="in_doubt", attempt=1, approval_id=None) for call in state.open_calls
    )
    heir = Session()
    restore_state(heir, replace(state, open_calls=cut_off, approvals=()))

    (outcome,) = await Executor(heir, [pay(ran, is_idempotent=True)]).resume()

    if was_idempotent:
        assert (kind_of(outcome), ran) == ("completed", [("paid", 1)])
    else:
        assert (outcome.status, ran) == ("waiting", [])
        assert outcome.approval is not None
        assert outcome.approval.rule == "in_doubt"
        assert outcome.approval.changes == ("is_idempotent: off -> on",)
