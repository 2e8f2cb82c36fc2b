"""Signals that steer a call (approval, retry, cancellation) are nobody's result."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.toolsets.samples import toolset_of
from toolcrib import Answer, ApprovalRequired, Approve, ModelRetry, ToolContext
from toolcrib.context import AgentContext
from toolcrib.errors import HookFailed
from toolcrib.toolsets import BaseTool, GlobalHooks, HookableToolsetTool, Toolset

Arguments = dict[str, Any]


class Transfer(BaseTool):
    """Finds out only while it runs that a large sum needs a yes."""

    name = "transfer"
    description = "Move money"

    def get_approval_metadata(self) -> dict[str, Any] | None:
        return {"from": "tool"}

    async def call(self, ctx: ToolContext, amount: int) -> str:
        if amount > 100 and not ctx.tool_call_approved:
            raise ApprovalRequired({"amount": amount})
        if amount < 0:
            raise ModelRetry("amount must be above 0")
        return f"moved {amount}"


class Seen:
    """Post hooks that would turn anything into a success, and note what they were shown."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.hooks = GlobalHooks(post=self.global_post)

    async def post(self, ctx: ToolContext, result: Any) -> Any:
        self.results.append(result)
        return "swallowed" if isinstance(result, Exception) else result

    async def global_post(self, ctx: ToolContext, name: str, result: Any) -> Any:
        return await self.post(ctx, result)


class SwallowingToolset(Toolset):
    """Its override turns every error into a text."""

    async def _call_tool_func(
        self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
    ) -> Any:
        try:
            return await tool.call_func(args, ctx)
        except Exception as error:
            return f"failed: {error}"


class WrappingToolset(Toolset):
    """Its override raises another error in place of every error."""

    async def _call_tool_func(
        self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
    ) -> Any:
        try:
            return await tool.call_func(args, ctx)
        except Exception as error:
            raise RuntimeError("wrapped") from error


ANY_TOOLSET = pytest.mark.parametrize("kind", [Toolset, SwallowingToolset, WrappingToolset])


class TestApprovalAskedByTheTool:
    @ANY_TOOLSET
    async def test_it_reaches_the_host_and_no_hook(self, kind: type[Toolset]) -> None:
        """T28: neither a post hook nor an override can swallow a tool's question; once it is
        answered the tool runs again and knows it.
        """
        seen, ctx = Seen(), AgentContext()
        toolset = kind(ctx, [Transfer], post_hooks={"transfer": seen.post}, global_hooks=seen.hooks)

        with pytest.raises(ApprovalRequired) as caught:
            await toolset.call_tool("transfer", {"amount": 500}, "c1")
        assert caught.value.metadata == {"amount": 500}
        assert caught.value.request is not None
        assert caught.value.request.rule == "tool"
        assert seen.results == []

        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        assert await toolset.call_tool("transfer", {"amount": 500}, "c1") == "moved 500"
        assert seen.results == ["moved 500"] * 2

    async def test_a_small_sum_is_not_asked_about(self) -> None:
        """T28: a tool that does not ask runs at once."""
        assert await toolset_of(Transfer).call_tool("transfer", {"amount": 5}) == "moved 5"


class TestApprovalAskedByAHook:
    async def ask(self, ctx: ToolContext, *shown: Any) -> Any:
        raise ApprovalRequired({"from": "hook"})

    async def ask_without_metadata(self, ctx: ToolContext, *shown: Any) -> Any:
        raise ApprovalRequired

    async def halve(self, ctx: ToolContext, *shown: Any) -> Arguments:
        return {"amount": shown[-1]["amount"] // 2}

    async def test_what_earlier_hooks_rewrote_stays(self) -> None:
        """T28, T38: the tool's hook asks, and what runs is what the global hook made of it."""
        ctx = AgentContext()
        toolset = Toolset(
            ctx,
            [Transfer],
            pre_hooks={"transfer": self.ask},
            global_hooks=GlobalHooks(pre=self.halve),
        )
        asked = await toolset.call("transfer", {"amount": 50}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        (outcome,) = await toolset.resume()

        assert asked.approval is not None
        assert asked.approval.arguments == {"amount": 25}
        assert outcome.value == "moved 25"

    async def test_later_hooks_still_rewrite(self) -> None:
        """T28, T38: a global hook that asks does not keep the tool's own hook from its work."""
        toolset = toolset_of(
            Transfer,
            pre_hooks={"transfer": self.halve},
            global_hooks=GlobalHooks(pre=self.ask),
        )
        asked = await toolset.call("transfer", {"amount": 50})

        assert asked.approval is not None
        assert asked.approval.arguments == {"amount": 25}
        assert asked.approval.metadata == {"from": "hook"}

    async def test_rewritten_arguments_are_validated_before_anybody_is_asked(self) -> None:
        """T4: a person is not asked about a call that could not run."""

        async def spoil(ctx: ToolContext, args: Arguments) -> Arguments:
            return {"amount": "much"}

        toolset = toolset_of(
            Transfer, pre_hooks={"transfer": spoil}, global_hooks=GlobalHooks(pre=self.ask)
        )
        outcome = await toolset.call("transfer", {"amount": 50})

        assert outcome.failure is not None
        assert outcome.failure.kind == "invalid_arguments"
        assert toolset.ctx.session.approvals.pending() == []

    @pytest.mark.parametrize(
        ("hooks", "metadata"),
        [
            (("ask", "ask_without_metadata"), {"from": "hook"}),
            (("ask_without_metadata", "ask"), {"from": "hook"}),
            (("ask_without_metadata", "ask_without_metadata"), {"from": "tool"}),
        ],
    )
    async def test_the_approver_reads_what_the_hooks_say(
        self, hooks: tuple[str, str], metadata: Arguments
    ) -> None:
        """T39: a hook's metadata wins; where hooks say nothing, the tool speaks."""
        toolset = toolset_of(
            Transfer,
            pre_hooks={"transfer": getattr(self, hooks[1])},
            global_hooks=GlobalHooks(pre=getattr(self, hooks[0])),
        )
        asked = await toolset.call("transfer", {"amount": 50})

        assert asked.approval is not None
        assert asked.approval.metadata == metadata

    async def test_nobody_is_asked_when_a_later_hook_answers(self) -> None:
        """T28: nothing will run, so there is nothing to approve."""

        async def answer(ctx: ToolContext, args: Arguments) -> Answer:
            return Answer("cached")

        toolset = toolset_of(
            Transfer, pre_hooks={"transfer": answer}, global_hooks=GlobalHooks(pre=self.ask)
        )

        assert await toolset.call_tool("transfer", {"amount": 50}) == "cached"

    async def test_a_post_hook_asks_too_late(self) -> None:
        """T28: the tool has run; the call fails and nobody is asked for what cannot be undone."""
        toolset = toolset_of(Transfer, post_hooks={"transfer": self.ask})
        outcome = await toolset.call("transfer", {"amount": 50})

        assert isinstance(outcome.error, HookFailed)
        assert str(outcome.error) == (
            f"post hook {self.ask.__qualname__} of 'transfer' asked for approval when the tool had "
            "run already; ask in a pre hook"
        )
        assert toolset.ctx.session.approvals.pending() == []


class TestModelRetry:
    @ANY_TOOLSET
    async def test_a_retry_asked_by_the_tool_reaches_the_model(self, kind: type[Toolset]) -> None:
        """T28: no post hook or override turns it into a success; the model reads the message."""
        seen = Seen()
        toolset = kind(
            AgentContext(),
            [Transfer],
            post_hooks={"transfer": seen.post},
            global_hooks=seen.hooks,
        )
        outcome = await toolset.call("transfer", {"amount": -1})

        assert outcome.failure is not None
        assert outcome.failure.error_type == "ModelRetry"
        assert outcome.text == "amount must be above 0"
        assert seen.results == []
        with pytest.raises(ModelRetry, match="amount must be above 0"):
            await toolset.call_tool("transfer", {"amount": -1})

    async def test_a_hook_may_ask_for_a_retry(self) -> None:
        """T28: before the tool it does not run; after it the answer is thrown away."""
        seen = Seen()

        async def retry(ctx: ToolContext, shown: Any) -> Any:
            raise ModelRetry("try another amount")

        before = toolset_of(Transfer, pre_hooks={"transfer": retry}, global_hooks=seen.hooks)
        after = toolset_of(Transfer, post_hooks={"transfer": retry}, global_hooks=seen.hooks)

        for toolset in (before, after):
            outcome = await toolset.call("transfer", {"amount": 5})
            assert (outcome.ok, outcome.text) == (False, "try another amount")
        assert seen.results == []

    async def test_an_override_may_try_again_itself(self) -> None:
        """T28: a signal of an attempt that a later attempt made up for is void."""

        class Stubborn(Toolset):
            async def _call_tool_func(
                self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
            ) -> Any:
                try:
                    return await tool.call_func(args, ctx)
                except ModelRetry:
                    return await tool.call_func({"amount": 1}, ctx)

        toolset = Stubborn(AgentContext(), [Transfer])

        assert await toolset.call_tool("transfer", {"amount": -1}) == "moved 1"


class TestCancellation:
    @pytest.mark.parametrize("place", ["pre", "tool", "post"])
    async def test_cancelling_the_caller_is_swallowed_by_nobody(self, place: str) -> None:
        """T28: whoever awaits the call is cancelled, no hook sees it, and the record says so."""
        entered = asyncio.Event()
        seen = Seen()

        async def stop_here(here: str) -> None:
            if here == place:
                entered.set()
                await asyncio.Event().wait()

        class Endless(BaseTool):
            name = "endless"
            description = "Waits"

            async def call(self, ctx: ToolContext) -> str:
                await stop_here("tool")
                return "done"

        def hook(here: str) -> Callable[[ToolContext, Any], Any]:
            async def run(ctx: ToolContext, shown: Any) -> Any:
                await stop_here(here)
                return shown

            return run

        toolset = SwallowingToolset(
            AgentContext(),
            [Endless],
            pre_hooks={"endless": hook("pre")},
            post_hooks={"endless": hook("post")},
            global_hooks=seen.hooks,
        )
        calling = asyncio.create_task(toolset.call_tool("endless", {}))
        await entered.wait()
        calling.cancel()

        with pytest.raises(asyncio.CancelledError):
            await calling
        assert seen.results == []
        (entry,) = toolset.ctx.session.transcript()
        assert entry.what == "cancelled"
