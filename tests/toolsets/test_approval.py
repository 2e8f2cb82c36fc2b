"""Approval of a toolset's calls: what is asked, what runs once it is answered, and what never."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.toolsets.samples import ReadFile, Shell, WriteFile, commands_run
from toolcrib import ApprovalRequired, Approve, CallbackApprover, CallFailed, Deny, ToolContext
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.context import AgentContext
from toolcrib.errors import InvalidDecision, UsageError
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested
from toolcrib.testing import Recorder
from toolcrib.toolsets import BaseTool, GlobalHooks, Toolset

Arguments = dict[str, Any]


@pytest.fixture
def ctx(tmp_path: Path) -> AgentContext:
    context = AgentContext(cwd=str(tmp_path))
    context.need_user_approve_tools = ["shell"]
    return context


class Trail:
    """Hooks that note the order in which they ran and what they were shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.options: dict[str, Any] = {
            "pre_hooks": {"shell": self.pre},
            "post_hooks": {"shell": self.post},
            "global_hooks": GlobalHooks(self.global_pre, self.global_post),
        }

    async def global_pre(self, ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        self.seen.append(("global_pre", dict(args)))
        return {"command": args["command"] + " -l"}

    async def pre(self, ctx: ToolContext, args: Arguments) -> Arguments:
        self.seen.append(("pre", dict(args)))
        return {"command": args["command"] + " -a"}

    async def post(self, ctx: ToolContext, result: Any) -> Any:
        self.seen.append(("post", result))
        return result

    async def global_post(self, ctx: ToolContext, name: str, result: Any) -> Any:
        self.seen.append(("global_post", result))
        return result


class TestAsking:
    async def test_a_listed_tool_is_asked_about(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T38: the pre hooks settle what the approver sees; the tool and the post hooks wait."""
        trail = Trail()
        toolset = Toolset(ctx, [Shell], **trail.options)

        with pytest.raises(ApprovalRequired) as caught:
            await toolset.call_tool("shell", {"command": "ls"}, "c1")

        assert [name for name, _ in trail.seen] == ["global_pre", "pre"]
        assert commands_run(tmp_path) == []
        request = caught.value.request
        assert request is not None
        assert (request.arguments, request.rule) == (
            {"command": "ls -l -a"},
            "need_user_approve_tools",
        )

    async def test_metadata_reaches_the_host_by_call_id(self, ctx: AgentContext) -> None:
        """T39: what the tool tells approvers is in the exception, the inbox and the event."""
        recorder = Recorder(ctx.session.bus)
        metadata = {"warning": "This will run a command", "risk_level": "high"}

        with pytest.raises(ApprovalRequired) as caught:
            await Toolset(ctx, [Shell]).call_tool("shell", {"command": "ls"}, "c7")

        assert caught.value.metadata == metadata
        assert {
            request.call_id: request.metadata for request in ctx.session.approvals.pending()
        } == {"c7": metadata}
        (event,) = recorder.of(ApprovalRequested)
        assert (event.call_id, event.request.metadata) == ("c7", metadata)

    async def test_a_tool_that_says_nothing_has_no_metadata(self, ctx: AgentContext) -> None:
        """T39: None when the tool does not implement it."""
        ctx.need_user_approve_tools = ["read_file"]

        with pytest.raises(ApprovalRequired) as caught:
            await Toolset(ctx, [ReadFile]).call_tool("read_file", {"path": "a"})

        assert caught.value.metadata is None

    async def test_a_tool_may_ask_for_every_call(self, ctx: AgentContext) -> None:
        """T38: `requires_approval` on the class works without any list."""

        class Careful(Shell):
            name = "careful"
            requires_approval = True

        outcome = await Toolset(ctx, [Careful]).call("careful", {"command": "ls"})

        assert outcome.status == "waiting"

    async def test_the_list_is_read_at_every_call(self, tmp_path: Path) -> None:
        """T42: a change in the middle of a session counts from the next call on."""
        ctx = AgentContext(cwd=str(tmp_path))
        toolset = Toolset(ctx, [Shell])

        async def status() -> str:
            return (await toolset.call("shell", {"command": "ls"})).status

        assert await status() == "completed"
        ctx.need_user_approve_tools.append("shell")
        assert await status() == "waiting"
        ctx.need_user_approve_tools = ["edit", "shell"]
        assert await status() == "waiting"
        ctx.need_user_approve_tools = ["edit"]
        assert await status() == "completed"
        ctx.need_user_approve_tools.clear()
        assert await status() == "completed"


class TestGoingOn:
    @pytest.mark.parametrize("way", ["call again", "resume"])
    async def test_the_frozen_call_runs(self, ctx: AgentContext, tmp_path: Path, way: str) -> None:
        """T38, T40, T44: what was approved runs, whatever the second call says; pre hooks do not
        run again, post hooks do.
        """
        trail = Trail()
        toolset = Toolset(ctx, [Shell], **trail.options)
        await toolset.call("shell", {"command": "ls"}, "c1")
        trail.seen.clear()
        await ctx.session.approvals.decide("c1", Approve(), by="ada")

        if way == "resume":
            (outcome,) = await toolset.resume()
            value = outcome.value
        else:
            value = await toolset.call_tool("shell", {"command": "rm -r /"}, "c1")

        assert value == "ran ls -l -a"
        assert commands_run(tmp_path) == ["ls -l -a"]
        assert trail.seen == [("post", value), ("global_post", value)]

    async def test_nothing_runs_before_the_answer(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T40: asking again is not an answer."""
        toolset = Toolset(ctx, [Shell])
        for _ in range(3):
            with pytest.raises(ApprovalRequired):
                await toolset.call_tool("shell", {"command": "ls"}, "c1")
        (waiting,) = await toolset.resume()

        assert waiting.status == "waiting"
        assert len(ctx.session.approvals.pending()) == 1
        assert commands_run(tmp_path) == []

    async def test_tool_and_post_hooks_know_that_they_were_approved(
        self, ctx: AgentContext
    ) -> None:
        """T40: `ctx.tool_call_approved` is true after a yes, and only then."""
        seen: list[bool] = []

        class Look(BaseTool):
            name = "shell"
            description = "Looks at its context"

            async def call(self, ctx: ToolContext) -> None:
                seen.append(ctx.tool_call_approved)

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(ctx.tool_call_approved)
            return result

        toolset = Toolset(ctx, [Look], post_hooks={"shell": post})
        await toolset.call("shell", {}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        await toolset.call_tool("shell", {}, "c1")
        ctx.need_user_approve_tools = []
        await toolset.call_tool("shell", {})

        assert seen == [True, True, False, False]

    async def test_a_flag_set_by_hand_is_no_approval(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T40: only a recorded decision opens the gate."""
        forged = ToolContext(session_id="s", cwd="/", call_id="c1", tool_call_approved=True)

        with pytest.raises(ApprovalRequired):
            await Toolset(ctx, [Shell]).call_tool("shell", {"command": "ls"}, forged)
        assert commands_run(tmp_path) == []

    async def test_an_approver_in_the_process_answers_at_once(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T40: with somebody to ask, one call is enough."""

        async def decide(request: ApprovalRequest) -> Approve | Deny:
            return Approve() if request.arguments["command"] == "ls" else Deny("Only ls.")

        toolset = Toolset(ctx, [Shell], approver=CallbackApprover(decide))

        assert await toolset.call_tool("shell", {"command": "ls"}) == "ran ls"
        with pytest.raises(CallFailed, match="Only ls"):
            await toolset.call_tool("shell", {"command": "rm"})
        assert commands_run(tmp_path) == ["ls"]

    async def test_a_denied_call_does_not_run(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T41: the model reads the reason; no post hook can turn a no into a result."""

        async def recover(ctx: ToolContext, result: Any) -> str:
            return "recovered"

        toolset = Toolset(ctx, [Shell], post_hooks={"shell": recover})
        await toolset.call("shell", {"command": "rm"}, "c1")
        await ctx.session.approvals.decide("c1", Deny("Not on this machine."), by="ada")
        with pytest.raises(CallFailed) as caught:
            await toolset.call_tool("shell", {"command": "rm"}, "c1")

        assert caught.value.failure.kind == "denied"
        assert caught.value.failure.message == "Not on this machine."
        assert commands_run(tmp_path) == []
        assert ctx.session.transcript()[-1].text == "Not on this machine."

    async def test_siblings_do_not_wait(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T43: unlisted tools of the same batch run while a person thinks."""
        answered = asyncio.Event()

        async def think(request: ApprovalRequest) -> Approve:
            await answered.wait()
            return Approve()

        toolset = Toolset(ctx, [Shell, WriteFile], approver=CallbackApprover(think))
        path = tmp_path / "a"
        shell = asyncio.create_task(toolset.call_tool("shell", {"command": "ls"}))
        wrote = await toolset.call_tool("write_file", {"path": str(path), "text": "hi"})

        assert wrote == "wrote 2 characters"
        assert (shell.done(), commands_run(tmp_path)) == (False, [])
        answered.set()
        assert await shell == "ran ls"


class TestOnce:
    async def test_an_approval_is_used_once(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: the same call id gives the same result after it ran, and runs nothing; the decision
        cannot be repeated.
        """
        toolset = Toolset(ctx, [Shell])
        await toolset.call("shell", {"command": "ls"}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        await toolset.call_tool("shell", {"command": "ls"}, "c1")

        with pytest.raises(InvalidDecision, match="decided already"):
            await ctx.session.approvals.decide("c1", Approve(), by="ada")
        assert await toolset.call_tool("shell", {"command": "ls"}, "c1") == "ran ls"
        assert await toolset.resume() == []
        assert commands_run(tmp_path) == ["ls"]

    async def test_an_approval_is_for_one_call(self, ctx: AgentContext, tmp_path: Path) -> None:
        """T44: the same arguments under another id are another call."""
        toolset = Toolset(ctx, [Shell])
        await toolset.call("shell", {"command": "ls"}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")

        with pytest.raises(ApprovalRequired):
            await toolset.call_tool("shell", {"command": "ls"}, "c2")
        assert commands_run(tmp_path) == []

    async def test_a_decision_is_about_what_the_decider_saw(self, ctx: AgentContext) -> None:
        """T44: a decision with the digest of other arguments is refused; the record names the
        digest that was decided.
        """
        recorder = Recorder(ctx.session.bus)
        toolset = Toolset(ctx, [Shell])
        await toolset.call("shell", {"command": "ls"}, "c1")
        await toolset.call("shell", {"command": "rm"}, "c2")
        seen, other = (request.digest for request in ctx.session.approvals.pending())

        with pytest.raises(InvalidDecision, match="another call"):
            await ctx.session.approvals.decide("c1", Approve(), by="ada", digest=other)
        await ctx.session.approvals.decide("c1", Approve(), by="ada", digest=seen)
        await toolset.call_tool("shell", {"command": "ls"}, "c1")

        (event,) = recorder.of(ApprovalDecided)
        assert seen != other
        assert (event.decided.digest, event.decided.actor.name) == (seen, "ada")

    async def test_two_callers_cannot_both_use_one_approval(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T44: while the approved call runs, its id cannot start another."""
        entered, leave = asyncio.Event(), asyncio.Event()

        class Held(Shell):
            async def call(self, ctx: ToolContext, command: str) -> str:
                entered.set()
                await leave.wait()
                return await super().call(ctx, command)

        toolset = Toolset(ctx, [Held])
        await toolset.call("shell", {"command": "ls"}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        first = asyncio.create_task(toolset.call_tool("shell", {"command": "ls"}, "c1"))
        await entered.wait()

        with pytest.raises(UsageError, match="'c1'"):
            await toolset.call_tool("shell", {"command": "ls"}, "c1")
        assert await toolset.resume() == []
        leave.set()
        assert await first == "ran ls"
        assert commands_run(tmp_path) == ["ls"]

    async def test_a_changed_tool_does_not_run_in_the_old_ones_name(
        self, ctx: AgentContext, tmp_path: Path
    ) -> None:
        """T44: the approval was of the tool as it was."""

        class Newer(Shell):
            version = "2.0.0"

        await Toolset(ctx, [Shell]).call("shell", {"command": "ls"}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        (outcome,) = await Toolset(ctx, [Newer]).resume()

        assert outcome.failure is not None
        assert outcome.failure.kind == "unavailable"
        assert commands_run(tmp_path) == []
