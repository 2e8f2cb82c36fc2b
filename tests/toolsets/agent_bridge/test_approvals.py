"""Approvals through an agent: as deferred tools, and at once where somebody can answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_ai import (
    Agent,
    AgentRunResult,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRequest,
    ModelResponse,
    RunContext,
    ToolApproved,
    ToolDenied,
    UserPromptPart,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import UserError

from tests.toolsets.agent_bridge.agents import (
    Greet,
    Output,
    Shell,
    agent_of,
    call,
    commands_run,
    deferred,
    endings,
    invocations,
    scripted,
    told,
)
from toolcrib import Approve, CallbackApprover, Deny, Policy, Rule
from toolcrib.approval import Regex
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.context import AgentContext
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested
from toolcrib.testing import FakeClock, Recorder
from toolcrib.toolsets import BaseTool, GlobalHooks, Toolset

METADATA = {"warning": "This will run a command", "risk_level": "high"}


@pytest.fixture
def ctx(tmp_path: Path) -> AgentContext:
    context = AgentContext(cwd=str(tmp_path))
    context.need_user_approve_tools = ["shell"]
    return context


class Trail:
    """Hooks that note that they ran, and a pre hook that changes the command."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.options: dict[str, Any] = {
            "pre_hooks": {"shell": self.pre},
            "post_hooks": {"shell": self.post},
            "global_hooks": GlobalHooks(self.global_pre, self.global_post),
        }

    async def global_pre(self, ctx: RunContext[Any], name: str, args: Any) -> Any:
        self.seen.append("global_pre")
        return args

    async def pre(self, ctx: RunContext[Any], args: dict[str, Any]) -> dict[str, Any]:
        self.seen.append("pre")
        return {"command": args["command"] + " -a"}

    async def post(self, ctx: RunContext[Any], result: Any) -> Any:
        self.seen.append(f"post {ctx.tool_call_approved}")
        return result

    async def global_post(self, ctx: RunContext[Any], name: str, result: Any) -> Any:
        self.seen.append("global_post")
        return result


class Talk:
    """A conversation with an agent whose model calls `shell`, and then whatever else is given."""

    def __init__(self, toolset: Any, *steps: Any, **options: Any) -> None:
        self.agent = agent_of(toolset, steps=steps or [[call("shell", command="ls")]], **options)
        self.last: AgentRunResult[Output]

    async def begin(self) -> DeferredToolRequests:
        self.last = await self.agent.run("go")
        return deferred(self.last)

    async def answer(self, answer: Any, call_id: str = "c1", **options: Any) -> Any:
        """What the model is told in the end, or the calls that wait again."""
        self.last = await self.agent.run(
            message_history=self.last.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={call_id: answer}, **options),
        )
        waits = isinstance(self.last.output, DeferredToolRequests)
        return self.last.output if waits else told(self.last, call_id)


class TestAsking:
    async def test_a_listed_tool_is_deferred(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T38: the run ends with the call; pre hooks have run, the tool and post hooks have not."""
        trail = Trail()
        requests = await Talk(Toolset(ctx, [Shell], **trail.options)).begin()

        assert [(part.tool_name, part.tool_call_id) for part in requests.approvals] == [
            ("shell", "c1")
        ]
        assert trail.seen == ["global_pre", "pre"]
        assert commands_run(tmp_path) == []
        (request,) = ctx.session.approvals.pending()
        assert (request.call_id, request.arguments) == ("c1", {"command": "ls -a"})

    async def test_metadata_by_call_id(self, ctx: AgentContext) -> None:
        """T39: what the tool tells approvers, by call id. Of a tool that is silent only what the
        model did not send: the defaults that it will run with.
        """
        ctx.need_user_approve_tools = ["shell", "greet"]
        calls = [call("shell", "c1", command="ls"), call("greet", "c2", who="Ada")]
        requests = await Talk(Toolset(ctx, [Shell, Greet]), calls).begin()

        assert [part.tool_call_id for part in requests.approvals] == ["c1", "c2"]
        assert requests.metadata == {
            "c1": METADATA,
            "c2": {"final_arguments": {"who": "Ada", "times": 1}},
        }

    async def test_hooks_that_change_arguments_are_told(self, ctx: AgentContext) -> None:
        """T38, T39: the agent shows what the model sent, so what will run is in the metadata."""
        requests = await Talk(Toolset(ctx, [Shell], **Trail().options)).begin()

        assert requests.approvals[0].args_as_dict() == {"command": "ls"}
        assert requests.metadata["c1"] == METADATA | {"final_arguments": {"command": "ls -a"}}

    async def test_the_list_is_read_at_every_call(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T42: a tool that changes the list is obeyed from the next call on."""

        class Relax(BaseTool):
            name = "relax"
            description = "Changes the list"

            async def call(self, ctx: RunContext[AgentContext], names: list[str]) -> None:
                ctx.deps.need_user_approve_tools = names

        talk = Talk(
            Toolset(ctx, [Shell, Relax]),
            [call("relax", "c1", names=[])],
            [call("shell", "c2", command="ls")],
            [call("relax", "c3", names=["shell"])],
            [call("shell", "c4", command="rm")],
        )
        requests = await talk.begin()

        assert commands_run(tmp_path) == ["ls"]
        assert [part.tool_call_id for part in requests.approvals] == ["c4"]

    async def test_siblings_do_not_wait(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T43: other calls of the same step have their results when the run ends."""
        calls = [call("shell", "c1", command="ls"), call("greet", "c2", who="Ada")]
        talk = Talk(Toolset(ctx, [Shell, Greet]), calls)
        requests = await talk.begin()

        assert [part.tool_call_id for part in requests.approvals] == ["c1"]
        assert told(talk.last, "c2") == ("success", "Hello, Ada.")
        assert await talk.answer(True) == ("success", "ran ls")
        assert endings(ctx.session) == [("c2", None), ("c1", None)]

    async def test_without_deferred_output_nothing_runs(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T38: an agent that cannot defer fails loudly, and the call still waits."""
        agent = Agent(scripted([call("shell", command="ls")]), toolsets=[Toolset(ctx, [Shell])])
        with pytest.raises(UserError, match="DeferredToolRequests"):
            await agent.run("go")

        assert commands_run(tmp_path) == []
        assert len(ctx.session.approvals.pending()) == 1


class TestAnswering:
    async def test_a_yes_runs_what_was_frozen(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T40: the arguments after the pre hooks run; the pre hooks do not run again, and tool and
        post hooks know that they were approved.
        """
        trail = Trail()
        talk = Talk(Toolset(ctx, [Shell], **trail.options))
        await talk.begin()
        trail.seen.clear()

        assert await talk.answer(True) == ("success", "ran ls -a")
        assert trail.seen == ["post True", "global_post"]
        assert commands_run(tmp_path) == ["ls -a"]
        assert talk.last.output == "done"

    async def test_the_decision_is_in_the_ledger(self, ctx: AgentContext) -> None:
        """T40: who said yes, as the application tells it, on which call."""
        recorder = Recorder(ctx.session.bus)
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        await talk.answer(True, metadata={"c1": {"by": "ada"}})

        (asked,), (decided,) = recorder.of(ApprovalRequested), recorder.of(ApprovalDecided)
        assert decided.decided.digest == asked.request.digest
        assert (decided.decided.actor.kind, decided.decided.actor.name) == ("person", "ada")
        (invoked,) = invocations(ctx.session)
        assert invoked.decided_by == decided.decided.actor

    async def test_who_decided_is_the_application_when_it_does_not_say(
        self, ctx: AgentContext
    ) -> None:
        """T40: nobody's name is made up."""
        recorder = Recorder(ctx.session.bus)
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        await talk.answer(True, metadata={"c1": {"by": "  "}})

        assert recorder.of(ApprovalDecided)[0].decided.actor.name == "application"

    @pytest.mark.parametrize(
        ("answer", "message"),
        [(False, "The tool call was denied."), (ToolDenied("Not here."), "Not here.")],
    )
    async def test_a_no_runs_nothing(
        self, ctx: AgentContext, tmp_path: Path, answer: Any, message: str
    ) -> None:
        """T41: the model reads the message, and the session knows that the call is over."""
        trail = Trail()
        talk = Talk(Toolset(ctx, [Shell], **trail.options))
        await talk.begin()

        assert await talk.answer(answer) == ("denied", message)
        assert commands_run(tmp_path) == []
        assert [each for each in trail.seen if each.startswith("post")] == []
        assert endings(ctx.session) == [("c1", "denied")]
        assert invocations(ctx.session)[0].message == message
        assert (ctx.session.approvals.pending(), ctx.session.open_calls()) == ([], [])

    async def test_an_answer_in_the_tools_place(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T41: an application that gives the result itself leaves no request behind."""
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        talk.last = await talk.agent.run(
            message_history=talk.last.all_messages(),
            deferred_tool_results=DeferredToolResults(calls={"c1": "by hand"}),
        )

        assert told(talk.last) == ("success", "by hand")
        assert commands_run(tmp_path) == []
        assert endings(ctx.session) == [("c1", "cancelled")]
        assert ctx.session.open_calls() == []

    async def test_a_decision_from_the_inbox_counts(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T41: what was decided first is final, whatever the application says later."""
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        await ctx.session.approvals.decide("c1", Deny("Not on my watch."), by="bob")

        assert await talk.answer(True) == ("denied", "Not on my watch.")
        assert commands_run(tmp_path) == []

    async def test_an_inline_handler_of_the_agent(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T40: a capability that resolves deferred calls needs no second run."""

        async def handle(run: RunContext[Any], requests: DeferredToolRequests) -> Any:
            assert requests.metadata["c1"] == METADATA
            return requests.build_results(approve_all=True)

        handler: Any = HandleDeferredToolCalls(handle)
        talk = Talk(Toolset(ctx, [Shell]), capabilities=[handler])
        result = await talk.agent.run("go")

        assert told(result) == ("success", "ran ls")
        assert commands_run(tmp_path) == ["ls"]


class TestInline:
    async def test_an_approver_in_the_toolset_answers_at_once(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T40, T41: nothing is deferred when somebody can be asked."""

        async def decide(request: ApprovalRequest) -> Approve | Deny:
            return Approve() if request.arguments["command"] == "ls" else Deny("Only ls.")

        toolset = Toolset(ctx, [Shell], approver=CallbackApprover(decide))
        calls = [call("shell", "c1", command="ls"), call("shell", "c2", command="rm")]
        result = await Talk(toolset, calls).agent.run("go")

        assert told(result, "c1") == ("success", "ran ls")
        assert told(result, "c2") == ("denied", "Only ls.")
        assert commands_run(tmp_path) == ["ls"]

    async def test_a_session_that_denies_what_nobody_answers(self, tmp_path: Path) -> None:
        """R42: `unanswered="deny"` defers nothing."""
        ctx = AgentContext(cwd=str(tmp_path), need_user_approve_tools=["shell"], unanswered="deny")
        result = await Talk(Toolset(ctx, [Shell])).agent.run("go")

        assert told(result)[0] == "denied"
        assert commands_run(tmp_path) == []

    async def test_siblings_run_while_a_person_thinks(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T43: the other call has finished before the answer comes."""
        greeted = asyncio.Event()

        class Noted(Greet):
            async def call(self, ctx: RunContext[Any], who: str, times: int = 1) -> str:
                greeted.set()
                return who

        async def think(request: ApprovalRequest) -> Approve:
            await greeted.wait()
            return Approve()

        toolset = Toolset(ctx, [Shell, Noted], approver=CallbackApprover(think))
        calls = [call("shell", "c1", command="ls"), call("greet", "c2", who="Ada")]
        result = await Talk(toolset, calls).agent.run("go")

        assert told(result) == ("success", "ran ls")


class TestEdits:
    async def test_overriding_arguments_run(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T40, T44: the person's arguments run instead, and the model is told."""
        trail = Trail()
        talk = Talk(Toolset(ctx, [Shell], **trail.options))
        await talk.begin()
        outcome, content = await talk.answer(ToolApproved(override_args={"command": "ls /tmp"}))

        assert outcome == "success"
        assert content.startswith("ran ls /tmp")
        assert 'It ran with: {"command":"ls /tmp"}' in content
        assert commands_run(tmp_path) == ["ls /tmp"]
        assert trail.seen.count("pre") == 1
        (invoked,) = invocations(ctx.session)
        assert (invoked.was_edited, invoked.params) == (True, {"command": "ls /tmp"})

    async def test_overriding_with_the_same_is_no_edit(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T44: the arguments that were shown, or those that were frozen, are what was approved."""
        for override in ({"command": "ls"}, {"command": "ls -a"}):
            talk = Talk(Toolset(ctx, [Shell], **Trail().options))
            await talk.begin()
            assert await talk.answer(ToolApproved(override_args=override)) == (
                "success",
                "ran ls -a",
            )
        assert [each.was_edited for each in invocations(ctx.session)] == [False, False]

    async def test_invalid_overrides_do_not_run(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: they are validated like any arguments."""
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        outcome, _ = await talk.answer(ToolApproved(override_args={"command": 7}))

        assert outcome == "retried"
        assert commands_run(tmp_path) == []
        assert ctx.session.open_calls() == []

    async def test_a_deny_rule_still_wins(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: no yes of anybody makes a forbidden command run."""
        forbid = Rule("deny", "shell", arguments={"/command": Regex("rm .*")})
        policy = Policy((forbid, Rule("ask", "shell")))
        talk = Talk(Toolset(ctx, [Shell], policy=policy))
        await talk.begin()
        outcome, content = await talk.answer(ToolApproved(override_args={"command": "rm -r /"}))

        assert outcome == "denied"
        assert content
        assert commands_run(tmp_path) == []
        assert endings(ctx.session) == [("c1", "not_permitted")]

    async def test_secrets_cannot_be_changed(self, ctx: AgentContext) -> None:
        """T44: an edit of anything else keeps the secret; one of the secret is not taken, and the
        application is told why.
        """
        used: list[tuple[str, int]] = []

        class Pay(BaseTool):
            name = "pay"
            description = "Pay"
            requires_approval = True

            async def call(self, ctx: RunContext[Any], token: SecretStr, amount: int) -> str:
                used.append((token.get_secret_value(), amount))
                return "paid"

        talk = Talk(Toolset(ctx, [Pay]), [call("pay", token="tok-12345", amount=1)])
        await talk.begin()
        again = await talk.answer(ToolApproved(override_args={"token": "mine", "amount": 1}))

        assert used == []
        assert isinstance(again, DeferredToolRequests)
        assert "may neither change nor add a secret" in again.metadata["c1"]["problem"]
        outcome, _ = await talk.answer(
            ToolApproved(override_args={"token": "tok-12345", "amount": 2})
        )
        assert (outcome, used) == ("success", [("tok-12345", 2)])
        assert "tok-12345" not in "".join(str(record) for record in ctx.session.records())

    async def test_secrets_in_a_list(self, ctx: AgentContext) -> None:
        """T44: a list that holds secrets is found unchanged by its elements."""
        used: list[tuple[list[str], str]] = []

        class Send(BaseTool):
            name = "send"
            description = "Send"
            requires_approval = True

            async def call(self, ctx: RunContext[Any], keys: list[SecretStr], to: str) -> str:
                used.append(([key.get_secret_value() for key in keys], to))
                return "sent"

        keys = ["key-11111", "key-22222"]
        talk = Talk(Toolset(ctx, [Send]), [call("send", keys=keys, to="a")])
        await talk.begin()
        for wrong in (["key-11111"], ["key-11111", "key-33333"]):
            again = await talk.answer(ToolApproved(override_args={"keys": wrong, "to": "b"}))
            assert isinstance(again, DeferredToolRequests)
        await talk.answer(ToolApproved(override_args={"keys": keys, "to": "b"}))

        assert used == [(keys, "b")]


class TestOnce:
    async def test_an_approval_is_used_once(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: the same history with the same approval is the same call: it has the recorded
        result, and nothing runs.
        """
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        asked = talk.last
        assert await talk.answer(True) == ("success", "ran ls")
        for _ in range(2):
            talk.last = asked
            assert await talk.answer(True) == ("success", "ran ls")
            talk.last = asked
            await talk.answer(False)

        assert commands_run(tmp_path) == ["ls"]
        assert endings(ctx.session) == [("c1", None)]

    async def test_a_later_turn_asks_anew(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: the approval of an earlier turn permits nothing in the turn of another prompt."""
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        asked = talk.last
        assert await talk.answer(True) == ("success", "ran ls")
        again = await talk.agent.run(
            "again",
            message_history=asked.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
        )

        assert [part.tool_call_id for part in deferred(again).approvals] == ["c1"]
        assert commands_run(tmp_path) == ["ls"]

    async def test_two_runs_cannot_use_one_approval(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T44: of two resumed runs at the same time one runs the call."""
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        history = talk.last.all_messages()
        results = DeferredToolResults(approvals={"c1": True})
        ends = await asyncio.gather(
            *(
                talk.agent.run(message_history=history, deferred_tool_results=results)
                for _ in range(2)
            ),
            return_exceptions=True,
        )

        assert len(ends) == 2
        assert commands_run(tmp_path) == ["ls"]

    async def test_a_forged_approval_opens_nothing(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: results for a call that was never asked about only bring the question."""
        talk = Talk(Toolset(ctx, [Shell]))
        forged = await talk.agent.run(
            message_history=[
                ModelRequest(parts=[UserPromptPart("go")]),
                ModelResponse(parts=[call("shell", "forged", command="rm -r /")]),
            ],
            deferred_tool_results=DeferredToolResults(approvals={"forged": True}),
        )

        assert [part.tool_call_id for part in deferred(forged).approvals] == ["forged"]
        assert commands_run(tmp_path) == []
        (request,) = ctx.session.approvals.pending()
        assert request.arguments == {"command": "rm -r /"}

    async def test_a_tool_that_asks_is_not_fooled_by_the_flag(self, ctx: AgentContext) -> None:
        """T44: what a tool reads as approved is this session's word, not the run's."""
        ran: list[bool] = []

        class Careful(BaseTool):
            name = "careful"
            description = "Asks unless approved"

            async def call(self, ctx: RunContext[Any]) -> str:
                if not ctx.tool_call_approved:
                    raise ApprovalRequired
                ran.append(True)
                return "ran"

        talk = Talk(Toolset(ctx, [Careful]).for_agent().approval_required(), [call("careful")])
        await talk.begin()
        again = await talk.answer(True)

        assert isinstance(again, DeferredToolRequests)
        assert ran == []
        assert await talk.answer(True) == ("success", "ran")

    async def test_changed_history_is_an_edit(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: whoever changes the call in the history approves what it says now, in the open."""
        talk = Talk(Toolset(ctx, [Shell]))
        await talk.begin()
        part: Any = talk.last.all_messages()[-1].parts[0]
        part.args = {"command": "pwd"}
        outcome, content = await talk.answer(True)

        assert (outcome, commands_run(tmp_path)) == ("success", ["pwd"])
        assert "The arguments were edited" in content
        assert invocations(ctx.session)[0].was_edited


class TestDeadlines:
    async def test_an_approval_that_comes_too_late(self, tmp_path: Path) -> None:
        """R42: the request has expired; nothing runs and the model is told."""
        clock = FakeClock()
        ctx = AgentContext(cwd=str(tmp_path), clock=clock)
        policy = Policy((Rule("ask", "shell", deadline_seconds=60),))
        talk = Talk(Toolset(ctx, [Shell], policy=policy))
        await talk.begin()
        clock.advance(61)

        outcome, content = await talk.answer(True)
        assert outcome == "denied"
        assert "Nobody approved" in content
        assert commands_run(tmp_path) == []
        assert endings(ctx.session) == [("c1", "expired")]
