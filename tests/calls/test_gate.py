"""The one gate: policy, the session's list, deadlines, and who decided."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.calls.payments import JO, Desk, Says, kind_of
from toolcrib.approval.approvers import Reply
from toolcrib.approval.decision import Actor, ApprovalRequest, Approve
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern import Between
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.hooks import Hooks
from toolcrib.errors import ApprovalRequired, InvalidDecision, UsageError
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, ToolInvoked
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore
from toolcrib.testing import FakeClock
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool
from toolcrib.tools.rules import ToolRules

SMALL = Policy(
    (
        Rule("allow", "pay", arguments={"/amount": Between(max=9)}, id="small"),
        Rule("ask", "pay", arguments={"/amount": Between(min=10)}, id="large"),
        Rule("deny", "pay", arguments={"/amount": Between(min=100)}, id="huge", reason="Too much."),
    )
)


class TestPolicy:
    @pytest.mark.parametrize(
        ("amount", "end", "rule"),
        [(5, "completed", "small"), (50, "waiting", None), (500, "not_permitted", "huge")],
    )
    async def test_the_policy_decides_by_arguments(
        self, amount: int, end: str, rule: str | None
    ) -> None:
        """Allow runs, ask waits, deny ends the call; the ledger names the rule that decided."""
        desk = Desk(SMALL)

        outcome = await desk.call(amount)

        assert kind_of(outcome) == end
        assert len(desk.ran) == (end == "completed")
        finished = [event.decided_by for event in desk.events(ToolInvoked)]
        assert finished == ([Actor("rule", rule)] if rule else [])
        if end == "not_permitted":
            assert outcome.text == "Too much."

    @pytest.mark.parametrize(("name", "status"), [("pay", "waiting"), ("look", "completed")])
    async def test_what_no_rule_knows_is_asked_about_unless_it_only_reads(
        self, name: str, status: str
    ) -> None:
        """Unmatched and risky means ask."""
        desk = Desk(Policy())

        arguments = {"amount": 1} if name == "pay" else {}
        assert (await desk.executor.call(name, arguments)).status == status

    async def test_a_policy_that_denies_the_rest_is_obeyed(self) -> None:
        """An unmatched call of a strict policy does not run, and nobody is asked."""
        approver = Says(Approve())
        desk = Desk(Policy(unmatched="deny"), approver)

        assert kind_of(await desk.call()) == "not_permitted"
        assert approver.asked == desk.ran == []

    async def test_the_tools_own_gate_needs_no_policy(self) -> None:
        """R42: without any policy a tool that requires approval is not entered."""
        desk = Desk(requires_approval=True)

        assert (await desk.call()).status == "waiting"
        assert desk.ran == []

    async def test_explain_says_what_would_happen_and_records_nothing(self) -> None:
        """A dry run judges like the gate, the session's list included."""
        desk = Desk(SMALL)
        before = len(list(desk.session.records()))
        desk.session.need_user_approve_tools.append("pay")

        assert desk.executor.explain("pay", {"amount": 500}).verdict.rule == "huge"
        assert desk.executor.explain("pay", {"amount": 5}).verdict.rule == "need_user_approve_tools"
        assert len(list(desk.session.records())) == before
        assert desk.ran == []


class TestSessionList:
    async def test_the_list_beats_an_allow_rule(self) -> None:
        """T38: what the session lists is asked about, whatever a rule allows."""
        desk = Desk(SMALL)
        desk.session.need_user_approve_tools.append("pay")

        outcome = await desk.call(5)

        assert outcome.approval is not None
        assert outcome.approval.rule == "need_user_approve_tools"

    async def test_the_list_does_not_soften_a_deny_rule(self) -> None:
        """Asking about what is forbidden would only mislead."""
        desk = Desk(SMALL)
        desk.session.need_user_approve_tools.append("pay")

        assert kind_of(await desk.call(500)) == "not_permitted"

    async def test_the_list_is_durable_before_anybody_is_asked(self, sqlite_path: Path) -> None:
        """T45: a crash while a call waits does not shorten the list."""
        with SqliteStore(sqlite_path) as store:
            async with await Session.open(store, "s") as session:
                session.need_user_approve_tools.append("pay")
                await Desk(session=session).call()

                assert store.session("s").settings["need_user_approve_tools"] == ["pay"]

    async def test_the_list_is_read_at_every_call(self) -> None:
        """T42: a change works from the next call on."""
        desk = Desk()

        assert (await desk.call()).status == "completed"
        desk.session.need_user_approve_tools.append("pay")
        assert (await desk.call()).status == "waiting"
        desk.session.need_user_approve_tools.clear()
        assert (await desk.call()).status == "completed"


class TestRequest:
    async def test_a_request_shows_the_frozen_call(self) -> None:
        """T44: tool, call, arguments and digest are those that will run."""
        desk = Desk(requires_approval=True, version="2.1.0")

        outcome = await desk.call(7, "c1")

        request = outcome.approval
        assert request is not None
        assert (request.tool.id, request.tool.version) == ("python/pay", "2.1.0")
        assert (request.call_id, request.arguments) == ("c1", {"amount": 7, "to": "ada"})
        assert request.session_id == desk.session.session_id
        assert desk.session.approvals.pending() == [request]
        assert [event.request for event in desk.events(ApprovalRequested)] == [request]

    @pytest.mark.parametrize("shown", ["approver", "outcome", "pending"])
    async def test_whoever_changes_what_it_was_shown_does_not_change_the_record(
        self, shown: str
    ) -> None:
        """The ledger keeps both versions, also when the edit was made in place."""

        class Editor:
            async def ask(self, request: ApprovalRequest) -> Reply:
                request.arguments["amount"] = 1
                return Reply(Approve(request.arguments), JO)

        desk = Desk(approver=Editor() if shown == "approver" else None, requires_approval=True)
        outcome = await desk.call(1000, "c1")
        if shown != "approver":
            request = outcome.approval
            if shown == "pending":
                (request,) = desk.session.approvals.pending()
            assert request is not None
            request.arguments["amount"] = 1
            await desk.decide("c1", Approve(request.arguments))

        assert desk.ran == [{"amount": 1, "to": "ada"}]
        assert desk.events(ApprovalRequested)[0].request.arguments == {
            "amount": 1000,
            "to": "ada",
        }

    @pytest.mark.parametrize("viewer", ["raises", "not json"])
    async def test_a_viewer_that_fails_neither_opens_nor_blocks_the_gate(
        self, viewer: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """T39: without metadata the request is still asked, and still needs a yes."""

        def view() -> dict[str, Any]:
            if viewer == "raises":
                raise RuntimeError("no preview")
            return {"preview": object()}

        caplog.set_level(logging.CRITICAL, "toolcrib.calls.request")
        desk = Desk(requires_approval=True, approval_metadata=view)

        outcome = await desk.call()

        assert outcome.approval is not None
        assert outcome.approval.metadata is None
        assert desk.ran == []

    async def test_metadata_reaches_the_approver(self) -> None:
        """T39: what the tool says about the call is in the request."""
        desk = Desk(requires_approval=True, approval_metadata=lambda: {"risk": "money"})

        outcome = await desk.call()

        assert outcome.approval is not None
        assert outcome.approval.metadata == {"risk": "money"}

    async def test_a_pre_hook_can_ask(self) -> None:
        """What a hook finds worth asking is asked, whatever the policy allows; the hook does not
        run again.
        """
        asked: list[object] = []

        async def pre(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
            asked.append(arguments)
            raise ApprovalRequired({"why": "odd"})

        desk = Desk(SMALL, hooks=Hooks(pre={"pay": pre}))

        waiting = await desk.call(5, "c1")
        assert waiting.approval is not None
        assert waiting.approval.metadata == {"why": "odd"}
        assert [kind_of(each) for each in await desk.decide("c1", Approve())] == ["completed"]
        assert (len(asked), len(desk.ran)) == (1, 1)

    async def test_a_handler_can_ask_while_it_runs(self) -> None:
        """A tool that finds out late that it needs a yes runs again once it is given, and says
        why in the request.
        """
        desk = Desk()
        ran: list[bool] = []

        @tool
        async def sweep(context: Any) -> str:
            """Sweep."""
            ran.append(context.tool_call_approved)
            if not context.tool_call_approved:
                raise ApprovalRequired({"files": 3})
            return "swept"

        desk.executor.register(sweep)

        waiting = await desk.executor.call("sweep", call_id="c1")
        assert waiting.approval is not None
        assert (waiting.approval.rule, waiting.approval.metadata) == ("tool", {"files": 3})
        (outcome,) = await desk.decide("c1", Approve(), NewGrant("session"))
        assert outcome.value == "swept"
        assert (await desk.executor.call("sweep")).value == "swept"
        assert ran == [False, True, False, True]


class TestNobodyThere:
    @pytest.mark.parametrize("rules", [ToolRules(requires_approval=True), ToolRules()])
    async def test_a_session_can_deny_what_nobody_answers(self, rules: ToolRules) -> None:
        """R42: with unanswered="deny" nothing waits; a rule is named as the one who decided."""
        session = Session(unanswered="deny", need_user_approve_tools=["pay"], clock=FakeClock())
        desk = Desk(session=session, **rules)

        outcome = await desk.call()

        assert kind_of(outcome) == "denied"
        assert [each.decided.actor for each in desk.events(ApprovalDecided)] == [
            Actor("rule", "unanswered")
        ]
        assert session.approvals.pending() == session.open_calls() == desk.ran == []

    async def test_a_nested_call_does_not_wait(self) -> None:
        """R48: its caller is on the stack; without an approver it is denied, and told why."""
        desk = Desk(requires_approval=True)

        @tool(uses=("pay",))
        async def shop(ctx: ToolContext) -> str:
            """Shop."""
            return kind_of(await ctx.call_tool("pay", {"amount": 1}))

        desk.executor.register(shop)

        assert (await desk.executor.call("shop")).value == "denied"
        assert desk.session.approvals.pending() == desk.session.open_calls() == desk.ran == []

    async def test_what_waits_can_be_withdrawn_once(self) -> None:
        """R42: a withdrawn call is cancelled and can no longer be approved."""
        desk = Desk(requires_approval=True)
        await desk.call(call_id="c1")

        outcome = await desk.executor.withdraw("c1")

        assert kind_of(outcome) == "cancelled"
        with pytest.raises(InvalidDecision):
            await desk.session.approvals.decide("c1", Approve(), by="jo")
        with pytest.raises(UsageError, match="no call"):
            await desk.executor.withdraw("c1")
        assert desk.ran == []
