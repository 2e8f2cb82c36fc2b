"""What a pre hook changed, and what it left alone."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.calls.hooked_executor import Bench
from tests.calls.runs import Run, run
from toolcrib import Hooks, ToolContext, tool

Arguments = dict[str, Any]


@tool
async def order(count: int, items: list[str]) -> list[str]:
    """Order some items."""
    return [f"{count} {item}" for item in items]


async def _ordered(**hooks: Any) -> Run:
    return await run(order, b'{"count": 1, "items": ["nut"]}', hooks=Hooks(**hooks))


async def test_a_change_deep_inside_counts() -> None:
    """T4: a hook may change the copy it got and hand it back: that is what runs, and what the
    record says.
    """

    async def add(ctx: ToolContext, args: Arguments) -> Arguments:
        args["items"].append("bolt")
        return args

    ended = await _ordered(pre={"order": add})

    assert ended.outcome.value == ["1 nut", "1 bolt"]
    assert ended.record.params == {"count": 1, "items": ["nut", "bolt"]}


@pytest.mark.parametrize("count", [True, 1.0], ids=["bool", "float"])
async def test_what_python_takes_for_equal_is_a_change(count: object) -> None:
    """T4: `True` and `1.0` equal 1 and are not it: what the tool does not take, it does not get."""

    async def spoil(ctx: ToolContext, args: Arguments) -> Arguments:
        return {**args, "count": count}

    ended = await _ordered(pre={"order": spoil})

    assert ended.failure == "invalid_arguments"
    assert ended.outcome.failure is not None
    assert [fault.pointer for fault in ended.outcome.failure.faults] == ["/count"]


async def test_what_no_hook_changes_stays_as_it_came() -> None:
    """Arguments that come back as they were keep their bytes, and so their digest."""

    async def copy(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
        return {key: args[key] for key in args}

    hooked, plain = await _ordered(global_pre=copy), await _ordered()

    assert hooked.outcome.ok
    assert hooked.record.arguments_digest == plain.record.arguments_digest


async def test_a_change_that_is_not_handed_back_counts_for_nothing() -> None:
    """A hook that spoils its copy and returns other arguments changed what it returned."""

    async def spoil(ctx: ToolContext, args: Arguments) -> Arguments:
        args["items"].clear()
        return {"count": 1, "items": ["nut"]}

    ended = await _ordered(pre={"order": spoil})

    assert ended.outcome.value == ["1 nut"]


@pytest.mark.parametrize("limit", [None, 60], ids=["unlimited", "limited"])
async def test_a_hook_may_return_anything_that_can_be_awaited(limit: float | None) -> None:
    """T4: a future does as well as a coroutine, before the tool and after it."""

    def pre(ctx: ToolContext, args: Arguments) -> Awaitable[Arguments]:
        return _done({"text": args["text"].upper()})

    def post(ctx: ToolContext, result: str) -> Awaitable[str]:
        return _done(f"{result}!")

    bench = Bench(pre={"echo": pre}, post={"echo": post}, timeout=limit)
    outcome = await bench.call()

    assert (bench.ran, outcome.value) == (["HELLO"], "HELLO!")


def _done(value: Any) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
