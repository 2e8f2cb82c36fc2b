"""Several hooks per event, with filters by name, source and place, and a time limit each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib import Executor, Hooks, Policy, Refuse, Session, ToolContext, tool
from toolcrib.approval.rule import Rule
from toolcrib.errors import InvalidHooks, ToolTimeout
from toolcrib.host_tools import HostToolDefinition

Arguments = dict[str, Any]


@tool
async def fs_read(path: str) -> str:
    """Read."""
    return f"read {path}"


@tool
async def fs_write(path: str) -> str:
    """Write."""
    return f"wrote {path}"


async def _ping(arguments: Arguments, ctx: ToolContext) -> str:
    return "pong"


PING = HostToolDefinition("ping", "Ping", {"type": "object"}, _ping)


class Trail:
    """Hooks that note when they ran."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.seen: list[str] = []

    def before(self, label: str, *names: str, **filters: Any) -> None:
        async def hook(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            self.seen.append(f"{label}>{name}")
            return args

        self.hooks.before_call(names or "*", **filters)(hook)

    def after(self, label: str, *names: str, **filters: Any) -> None:
        async def hook(ctx: ToolContext, name: str, result: Any) -> Any:
            self.seen.append(f"{label}<{name}")
            return result

        self.hooks.after_call(names or "*", **filters)(hook)

    async def calls(self, *names: str) -> list[str]:
        executor = Executor(Session(), [fs_read, fs_write, PING], hooks=self.hooks)
        for name in names:
            await executor.call(name, {} if name == "ping" else {"path": "a"})
        return self.seen


async def test_the_first_hook_is_the_outermost() -> None:
    """Hooks compose: in order before the call, in the other order after it, around the hooks by
    name and within the global ones.
    """
    trail = Trail(Hooks())
    for label in "ab":
        trail.before(label)
        trail.after(label)

    async def outermost(ctx: ToolContext, name: str, shown: Any) -> Any:
        trail.seen.append("global")
        return shown

    async def innermost(ctx: ToolContext, shown: Any) -> Any:
        trail.seen.append("own")
        return shown

    hooks = trail.hooks
    hooks.global_pre = hooks.global_post = outermost
    hooks.pre = hooks.post = {"fs_read": innermost}

    assert await trail.calls("fs_read") == [
        *("global", "a>fs_read", "b>fs_read", "own"),
        *("own", "b<fs_read", "a<fs_read", "global"),
    ]


async def test_filters_choose_tools() -> None:
    """A glob, one of several names, the source and the place: all of them have to match."""
    trail = Trail(Hooks())
    trail.before("glob", "fs_*")
    trail.before("names", "ping", "fs_write")
    trail.before("source", source="host")
    trail.before("place", "fs_*", place="local", source="python")

    assert await trail.calls("fs_read", "fs_write", "ping") == [
        *("glob>fs_read", "place>fs_read"),
        *("glob>fs_write", "names>fs_write", "place>fs_write"),
        *("names>ping", "source>ping"),
    ]


async def test_a_decorator_without_filters() -> None:
    """`@hooks.before_call` alone is about every call, and leaves the function as it is."""
    hooks = Hooks()

    @hooks.before_call
    async def refuse(ctx: ToolContext, name: str, args: Arguments) -> Refuse:
        return Refuse(f"no {name}")

    outcome = await Executor(Session(), [fs_read], hooks=hooks).call("fs_read", {"path": "a"})
    assert outcome.text == "no fs_read"
    assert refuse.__name__ == "refuse"


@pytest.mark.parametrize(
    "filters",
    [{"name": "fz_*"}, {"name": ["nope", "nada"]}, {"source": "mcp:*"}, {"place": "sandbox"}],
)
def test_a_filter_that_matches_nothing_is_refused(filters: dict[str, Any]) -> None:
    """F14: a hook that would guard nothing is an error where the tools are known."""
    hooks = Hooks()

    @hooks.before_call(**filters)
    async def guard(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        return args

    with pytest.raises(InvalidHooks, match=r"guard for .* matches no tool; the tools are: fs_read"):
        Executor(Session(), [fs_read], hooks=hooks)


def test_a_hook_that_comes_too_late_is_refused() -> None:
    """An executor has computed its hooks: a later one would guard nothing."""
    hooks = Hooks()
    Executor(Session(), [fs_read], hooks=hooks)

    with pytest.raises(InvalidHooks, match="comes too late"):

        @hooks.before_call
        async def late(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            return args


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"timeout": 0}, "finite number of seconds above 0"),
        ({"place": "moon"}, "place is one of"),
        ({"name": ""}, "empty filter"),
        ({"name": ()}, "empty filter"),
    ],
)
def test_wrong_filters_are_refused(filters: dict[str, Any], message: str) -> None:
    """Each slip is an error where it is written."""

    async def hook(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        return args

    with pytest.raises(InvalidHooks, match=message):
        Hooks().before_call(**filters)(hook)


async def test_each_hook_has_its_own_time() -> None:
    """A hook's timeout is its own; the tool does not run when it is over."""
    hooks = Hooks(timeout=60)

    @hooks.before_call("fs_*", timeout=0.01)
    async def slow(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        await asyncio.Event().wait()
        return args

    outcome = await Executor(Session(), [fs_read], hooks=hooks).call("fs_read", {"path": "a"})
    assert isinstance(outcome.error, ToolTimeout)
    assert "slow took longer than 0.01 s" in outcome.text


async def test_a_crashed_hook_fails_closed() -> None:
    """Among several hooks, one that crashes keeps the tool from running."""
    trail, ran = Trail(Hooks()), list[str]()

    @tool
    async def wipe() -> str:
        """Wipe."""
        ran.append("wipe")
        return "wiped"

    trail.before("a")

    @trail.hooks.before_call
    async def crash(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        raise RuntimeError("bug")

    outcome = await Executor(Session(), [wipe], hooks=trail.hooks).call("wipe")
    assert outcome.failure is not None
    assert outcome.failure.kind == "tool_error"
    assert (trail.seen, ran) == (["a>wipe"], [])


async def test_a_replaced_tool_keeps_its_hooks_in_the_turn() -> None:
    """A turn that has begun keeps the old tool, and what guards it, whatever comes in its place."""
    trail = Trail(Hooks())
    trail.before("guard", source="python")
    executor = Executor(Session(), [fs_read], hooks=trail.hooks)

    async def other(arguments: Arguments, ctx: ToolContext) -> str:
        return "other"

    with executor.turn():
        executor.replace(HostToolDefinition("fs_read", "Read", {"type": "object"}, other))
        assert (await executor.call("fs_read", {"path": "a"})).text == "read a"
    assert (await executor.call("fs_read", {})).text == "other"
    assert trail.seen == ["guard>fs_read"]


async def test_combined_hooks_keep_their_filters() -> None:
    """Several sets in one executor: each with its own filters, the first outermost."""
    outer, inner = Trail(Hooks()), Trail(Hooks())
    outer.seen = inner.seen
    outer.before("outer", "fs_*")
    inner.before("inner", "fs_read")
    outer.after("outer")
    inner.after("inner")
    both = Trail(Hooks.combined([outer.hooks, inner.hooks]))
    both.seen = inner.seen

    assert await both.calls("fs_read", "ping") == [
        *("outer>fs_read", "inner>fs_read", "inner<fs_read", "outer<fs_read"),
        *("inner<ping", "outer<ping"),
    ]


async def test_nothing_is_computed_for_a_call_without_hooks() -> None:
    """Without a matching hook a call has no chain, and no context unless its tool wants one."""
    hooks = Hooks()

    @hooks.before_call("fs_write")
    async def guard(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        return args

    policy = Policy(rules=(Rule("allow", "*"),))
    executor = Executor(Session(), [fs_read, fs_write], hooks=hooks, policy=policy)
    tools = executor.tools
    assert hooks.chain(tools["fs_read"]) is None
    assert hooks.chain(tools["fs_write"]) is not None
