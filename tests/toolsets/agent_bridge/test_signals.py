"""Exceptions that steer a run keep their meaning, whoever raises them; hooks do not see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic_ai import (
    Agent,
    CallDeferred,
    DeferredToolResults,
    RunContext,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai import ApprovalRequired as TheirApproval
from pydantic_ai import ModelRetry as TheirRetry
from pydantic_ai.exceptions import RunCancelled, ToolFailed

from tests.toolsets.agent_bridge.agents import (
    agent_of,
    call,
    deferred,
    endings,
    invocations,
    run,
    scripted,
    told,
)
from toolcrib import ApprovalRequired, ModelRetry
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, GlobalHooks, HookableToolsetTool, Toolset

Place = Literal["tool", "pre hook", "global pre hook", "post hook", "global post hook"]
PLACES: tuple[Place, ...] = ("tool", "pre hook", "global pre hook", "post hook", "global post hook")
Make = Callable[[], Exception]


class Raising:
    """A toolset in which one place raises, with hooks that would swallow any exception."""

    def __init__(self, make: Make, place: Place) -> None:
        self.ctx = AgentContext()
        self.seen: list[Any] = []
        raises = {each: make if each == place else None for each in PLACES}

        class Signal(BaseTool):
            name = "signal"
            description = "May raise"

            async def call(self, ctx: RunContext[Any]) -> str:
                _raise(raises["tool"])
                return "fine"

        async def pre(ctx: RunContext[Any], args: Any) -> Any:
            _raise(raises["pre hook"])
            return args

        async def global_pre(ctx: RunContext[Any], name: str, args: Any) -> Any:
            _raise(raises["global pre hook"])
            return args

        async def post(ctx: RunContext[Any], result: Any) -> Any:
            self.seen.append(result)
            _raise(raises["post hook"])
            return "swallowed" if isinstance(result, Exception) else result

        async def global_post(ctx: RunContext[Any], name: str, result: Any) -> Any:
            self.seen.append(result)
            _raise(raises["global post hook"])
            return "swallowed" if isinstance(result, Exception) else result

        self.toolset = Toolset(
            self.ctx,
            [Signal],
            pre_hooks={"signal": pre},
            post_hooks={"signal": post},
            global_hooks=GlobalHooks(global_pre, global_post),
        )

    @property
    def errors_seen(self) -> list[str]:
        return [type(each).__name__ for each in self.seen if isinstance(each, Exception)]


def _raise(make: Make | None) -> None:
    if make is not None:
        raise make()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("retry", [TheirRetry, ModelRetry])
async def test_a_retry_is_a_retry(place: Place, retry: type[Exception]) -> None:
    """T28: theirs or ours, from the tool or from any hook, the model is asked to try again."""
    raising = Raising(lambda: retry("Take another."), place)

    result = await run(raising.toolset, [call("signal")])

    assert told(result) == ("retried", "Take another.")
    assert raising.errors_seen == []
    (invoked,) = invocations(raising.ctx.session)
    assert invoked.failure is not None
    assert (invoked.failure.kind, invoked.failure.error_type) == ("tool_error", "ModelRetry")
    assert invoked.failure.message == "Take another."


@pytest.mark.parametrize("place", PLACES)
async def test_a_deferred_call_is_deferred(place: Place) -> None:
    """T28, F16: the run ends with the call and its metadata; the result comes from the application
    and is recorded as the result of the call.
    """
    raising = Raising(lambda: CallDeferred({"task": 7}), place)
    agent = agent_of(raising.toolset, steps=[[call("signal")]])

    waiting = await agent.run("go")
    requests = deferred(waiting)
    result = await agent.run(
        message_history=waiting.all_messages(),
        deferred_tool_results=DeferredToolResults(calls={"c1": "from outside"}),
    )

    assert [each.tool_call_id for each in requests.calls] == ["c1"]
    assert requests.metadata == {"c1": {"task": 7}}
    assert told(result) == ("success", "from outside")
    assert raising.errors_seen == []
    (invoked,) = invocations(raising.ctx.session)
    assert (invoked.success, invoked.message) == (True, "from outside")
    assert raising.ctx.session.open_calls() == []


@pytest.mark.parametrize("place", PLACES)
async def test_a_limit_of_the_run_ends_it(place: Place) -> None:
    """T28: no hook can turn the end of a run into a result."""
    raising = Raising(lambda: UsageLimitExceeded("enough"), place)

    with pytest.raises(UsageLimitExceeded, match="enough"):
        await run(raising.toolset, [call("signal")])
    assert raising.errors_seen == []
    assert endings(raising.ctx.session) == [("c1", "tool_error")]


@pytest.mark.parametrize("place", PLACES)
async def test_a_sub_agent_that_cancelled_itself(place: Place) -> None:
    """T28: the agent around it is told, and goes on, as pydantic-ai means it to."""
    raising = Raising(lambda: RunCancelled("stopped"), place)

    result = await run(raising.toolset, [call("signal")])

    assert told(result) == ("failed", "The sub-agent run was cancelled: stopped")
    assert raising.errors_seen == []
    assert endings(raising.ctx.session) == [("c1", "tool_error")]


async def test_a_sub_agents_usage_limit_ends_the_run() -> None:
    """T28: a limit that a nested run passes is not a result, whatever the post hook does."""
    inner = Agent(scripted([call("none")], [call("none", "c2")]))

    class Ask(BaseTool):
        name = "ask"
        description = "Ask another agent"

        async def call(self, ctx: RunContext[Any]) -> str:
            limits = UsageLimits(request_limit=1)
            return (await inner.run("go", usage=ctx.usage, usage_limits=limits)).output

    async def swallow(ctx: RunContext[Any], result: Any) -> Any:
        return "swallowed"

    ctx = AgentContext()
    with pytest.raises(UsageLimitExceeded, match="request_limit of 1"):
        await run(Toolset(ctx, [Ask], post_hooks={"ask": swallow}), [call("ask")])
    (invoked,) = invocations(ctx.session)
    assert invoked.message == "The call was left by UsageLimitExceeded."


@pytest.mark.parametrize("place", PLACES)
async def test_a_failure_that_is_final(place: Place) -> None:
    """T22: `ToolFailed` is a failure like any other: hooks see it, and what is left of it the
    model reads without being asked to try again.
    """
    raising = Raising(lambda: ToolFailed("No such order."), place)
    result = await run(raising.toolset, [call("signal")])

    is_seen = place != "global post hook"
    assert told(result) == (("success", "swallowed") if is_seen else ("failed", "No such order."))
    assert raising.errors_seen == (["ToolFailed"] if is_seen else [])
    assert endings(raising.ctx.session) == [("c1", None if is_seen else "tool_error")]


@pytest.mark.parametrize("place", ["tool", "pre hook", "global pre hook"])
@pytest.mark.parametrize("asks", [TheirApproval, ApprovalRequired])
async def test_a_question_is_a_question(place: Place, asks: type[Exception]) -> None:
    """T28, T39: a tool or a pre hook may ask in either language; the call waits, and runs once it
    is approved.
    """
    asked: list[int] = []

    def ask() -> Exception:
        return asks({"why": "large"})

    def only_once() -> Exception:
        asked.append(1)
        return ask()

    ctx = AgentContext()

    class Signal(BaseTool):
        name = "signal"
        description = "May ask"

        async def call(self, ctx: RunContext[Any]) -> str:
            if place == "tool" and not ctx.tool_call_approved:
                raise only_once()
            return f"approved {ctx.tool_call_approved}"

    async def pre(ctx: RunContext[Any], args: Any) -> Any:
        if place == "pre hook":
            raise only_once()
        return args

    async def global_pre(ctx: RunContext[Any], name: str, args: Any) -> Any:
        if place == "global pre hook":
            raise only_once()
        return args

    toolset = Toolset(
        ctx, [Signal], pre_hooks={"signal": pre}, global_hooks=GlobalHooks(pre=global_pre)
    )
    agent = agent_of(toolset, steps=[[call("signal")]])
    waiting = await agent.run("go")
    requests = deferred(waiting)
    result = await agent.run(
        message_history=waiting.all_messages(),
        deferred_tool_results=requests.build_results(approve_all=True),
    )

    assert requests.metadata == {"c1": {"why": "large"}}
    assert told(result) == ("success", "approved True")
    assert asked == [1]


@pytest.mark.parametrize("place", ["post hook", "global post hook"])
async def test_a_question_after_the_fact_is_a_fault(place: Place) -> None:
    """T28: when the tool has run there is nothing left to approve."""
    raising = Raising(lambda: TheirApproval(), place)
    if place == "global post hook":
        with pytest.raises(Exception, match="asked for approval when the tool had run already"):
            await run(raising.toolset, [call("signal")])
    else:
        result = await run(raising.toolset, [call("signal")])
        assert told(result) == ("success", "swallowed")
        assert raising.errors_seen == ["HookFailed"]


class Overriding(Toolset):
    """Runs tools with a broad `except`, as the document's examples do."""

    async def _call_tool_func(
        self, args: dict[str, Any], ctx: RunContext[Any], tool: HookableToolsetTool
    ) -> Any:
        try:
            return await tool.call_func(args, ctx)
        except Exception as error:
            return error


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: TheirRetry("Take another."), ("retried", "Take another.")),
        (lambda: ToolFailed("No such order."), ("failed", "No such order.")),
    ],
)
async def test_an_override_cannot_swallow_a_signal(make: Make, expected: Any) -> None:
    """T28, T33: returned as a value, a signal of pydantic-ai is still one."""

    class Signal(BaseTool):
        name = "signal"
        description = "Raises"

        async def call(self, ctx: RunContext[Any]) -> str:
            raise make()

    seen: list[str] = []

    async def post(ctx: RunContext[Any], result: Any) -> Any:
        seen.append(type(result).__name__)
        return result

    result = await run(
        Overriding(AgentContext(), [Signal], post_hooks={"signal": post}), [call("signal")]
    )

    assert told(result) == expected
    assert seen == (["ToolFailed"] if expected[0] == "failed" else [])


async def test_an_override_cannot_swallow_a_deferral() -> None:
    """T28, T33: the call is deferred all the same."""

    class Signal(BaseTool):
        name = "signal"
        description = "Raises"

        async def call(self, ctx: RunContext[Any]) -> str:
            raise CallDeferred

    result = await run(Overriding(AgentContext(), [Signal]), [call("signal")])

    assert [each.tool_call_id for each in deferred(result).calls] == ["c1"]


async def test_outside_an_agent_a_retry_of_theirs_is_ours() -> None:
    """T28: post hooks do not see it there either."""
    raising = Raising(lambda: TheirRetry("Take another."), "tool")

    with pytest.raises(ModelRetry, match="Take another"):
        await raising.toolset.call_tool("signal", {})
    assert raising.errors_seen == []
