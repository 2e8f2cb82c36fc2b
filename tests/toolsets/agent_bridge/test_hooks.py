"""Hooks around the calls of an agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import RunContext

from tests.toolsets.agent_bridge.agents import Greet, call, endings, invocations, run, told
from toolcrib import Answer, Refuse
from toolcrib.context import AgentContext
from toolcrib.errors import HookFailed, ToolTimeout
from toolcrib.toolsets import BaseTool, GlobalHooks, Toolset

Arguments = dict[str, Any]


class Trail:
    """Hooks that note what they saw and change it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.options: dict[str, Any] = {
            "pre_hooks": {"greet": self.pre},
            "post_hooks": {"greet": self.post},
            "global_hooks": GlobalHooks(self.global_pre, self.global_post),
        }

    async def global_pre(self, ctx: RunContext[Any], name: str, args: Arguments) -> Arguments:
        self.seen.append((f"global_pre {name}", dict(args)))
        return {"who": args["who"] + "1"}

    async def pre(self, ctx: RunContext[Any], args: Arguments) -> Arguments:
        self.seen.append(("pre", dict(args)))
        return {"who": args["who"] + "2"}

    async def post(self, ctx: RunContext[Any], result: Any) -> Any:
        self.seen.append(("post", result))
        return f"{result}3"

    async def global_post(self, ctx: RunContext[Any], name: str, result: Any) -> Any:
        self.seen.append((f"global_post {name}", result))
        return f"{result}4"


class Broken(BaseTool):
    name = "broken"
    description = "Fails"

    async def call(self, ctx: RunContext[Any]) -> str:
        raise FileNotFoundError("no such file")


async def test_the_order_and_what_each_gets() -> None:
    """T15, T16, T17, T18: each hook gets what the one before it returned."""
    trail = Trail()
    ctx = AgentContext()

    result = await run(Toolset(ctx, [Greet], **trail.options), [call("greet", who="Ada")])

    assert trail.seen == [
        ("global_pre greet", {"who": "Ada", "times": 1}),
        ("pre", {"who": "Ada1"}),
        ("post", "Hello, Ada12."),
        ("global_post greet", "Hello, Ada12.3"),
    ]
    assert told(result) == ("success", "Hello, Ada12.34")
    assert invocations(ctx.session)[0].params == {"who": "Ada12", "times": 1}


async def test_hooks_of_one_tool_leave_another_alone() -> None:
    """T12, T19: hooks are by name, and each of them is optional."""
    trail = Trail()

    class Wave(Greet):
        name = "wave"

    toolset = Toolset(AgentContext(), [Greet, Wave], pre_hooks={"greet": trail.pre})
    result = await run(toolset, [call("greet", who="Ada"), call("wave", "c2", who="Bob")])

    assert [told(result, each)[1] for each in ("c1", "c2")] == ["Hello, Ada2.", "Hello, Bob."]


class TestErrors:
    async def test_an_exception_is_shown_and_recovered_from(self) -> None:
        """T22, T23, T25: the same exception reaches the hook, and its text the model."""
        seen: list[Any] = []

        async def recover(ctx: RunContext[Any], result: Any) -> Any:
            seen.append(result)
            return "File not found." if isinstance(result, FileNotFoundError) else result

        async def global_post(ctx: RunContext[Any], name: str, result: Any) -> Any:
            seen.append(result)
            return result

        ctx = AgentContext()
        toolset = Toolset(
            ctx,
            [Broken],
            post_hooks={"broken": recover},
            global_hooks=GlobalHooks(post=global_post),
        )
        result = await run(toolset, [call("broken")])

        assert isinstance(seen[0], FileNotFoundError)
        assert seen[1] == "File not found."
        assert told(result) == ("success", "File not found.")
        assert endings(ctx.session) == [("c1", None)]

    async def test_an_exception_that_stays_is_raised(self) -> None:
        """T24: out of the run, as what it was, and the ledger has it."""
        ctx = AgentContext()
        with pytest.raises(FileNotFoundError, match="no such file") as caught:
            await run(Toolset(ctx, [Broken]), [call("broken")])

        assert caught.traceback[-1].name == "call"
        assert endings(ctx.session) == [("c1", "tool_error")]

    async def test_a_pre_hook_that_raises(self) -> None:
        """T29: the tool does not run; post hooks see the exception and may recover."""
        ran: list[str] = []

        class Noted(Greet):
            async def call(self, ctx: RunContext[Any], who: str, times: int = 1) -> str:
                ran.append(who)
                return who

        async def pre(ctx: RunContext[Any], args: Arguments) -> Arguments:
            raise PermissionError("not today")

        async def post(ctx: RunContext[Any], result: Any) -> Any:
            return f"recovered: {result}"

        toolset = Toolset(
            AgentContext(), [Noted], pre_hooks={"greet": pre}, post_hooks={"greet": post}
        )
        result = await run(toolset, [call("greet", who="Ada")])

        assert ran == []
        assert told(result) == ("success", "recovered: not today")

    async def test_a_post_hook_that_raises(self) -> None:
        """T30: the global hook still runs, with the new exception."""
        seen: list[Any] = []

        async def post(ctx: RunContext[Any], result: Any) -> Any:
            raise ValueError("bad hook")

        async def global_post(ctx: RunContext[Any], name: str, result: Any) -> Any:
            seen.append(result)
            return result

        toolset = Toolset(
            AgentContext(),
            [Greet],
            post_hooks={"greet": post},
            global_hooks=GlobalHooks(post=global_post),
        )
        with pytest.raises(ValueError, match="bad hook"):
            await run(toolset, [call("greet", who="Ada")])
        assert [type(each) for each in seen] == [ValueError]

    async def test_a_hook_that_is_not_async_is_named(self) -> None:
        """T16: the message says which hook and what to write."""

        def not_async(ctx: RunContext[Any], args: Arguments) -> Arguments:
            return args

        hooks: Any = {"greet": not_async}
        with pytest.raises(HookFailed, match=r"not_async returned dict .* write `async def`"):
            await run(Toolset(AgentContext(), [Greet], pre_hooks=hooks), [call("greet", who="Ada")])

    async def test_a_hook_that_takes_too_long(self) -> None:
        """T29: `hook_timeout` binds in an agent; the model may try again."""

        async def slow(ctx: RunContext[Any], args: Arguments) -> Arguments:
            await asyncio.Event().wait()
            return args

        ctx = AgentContext()
        toolset = Toolset(ctx, [Greet], pre_hooks={"greet": slow}, hook_timeout=0.01)
        result = await run(toolset, [call("greet", who="Ada")])

        assert told(result)[0] == "retried"
        assert "slow took longer than 0.01 s" in told(result)[1]
        assert endings(ctx.session) == [("c1", "timeout")]
        assert issubclass(ToolTimeout, TimeoutError)


class TestAnswers:
    async def test_a_hook_may_answer(self) -> None:
        """T17: the answer stands in the tool's place, and post hooks see it."""

        async def answer(ctx: RunContext[Any], args: Arguments) -> Answer:
            return Answer("from the cache")

        result = await run(
            Toolset(AgentContext(), [Greet], pre_hooks={"greet": answer}),
            [call("greet", who="Ada")],
        )

        assert told(result) == ("success", "from the cache")

    async def test_a_hook_may_refuse(self) -> None:
        """T17: a refusal is a denial to the agent, with the reason for the model."""

        async def refuse(ctx: RunContext[Any], args: Arguments) -> Refuse:
            return Refuse("Not on Sundays.")

        ctx = AgentContext()
        result = await run(
            Toolset(ctx, [Greet], pre_hooks={"greet": refuse}), [call("greet", who="Ada")]
        )

        assert told(result) == ("denied", "Not on Sundays.")
        assert endings(ctx.session) == [("c1", "not_permitted")]

    async def test_arguments_that_a_hook_broke(self) -> None:
        """T17: what a hook returns is validated again; the model reads what is wrong."""

        async def spoil(ctx: RunContext[Any], args: Arguments) -> Arguments:
            return {"who": 7}

        ctx = AgentContext()
        result = await run(
            Toolset(ctx, [Greet], pre_hooks={"greet": spoil}), [call("greet", who="Ada")]
        )

        assert told(result)[0] == "retried"
        assert "after its pre hooks" in told(result)[1]
        assert endings(ctx.session) == [("c1", "invalid_arguments")]
