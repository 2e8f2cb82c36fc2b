"""One registry, many threads, each with an event loop of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.host_tools.samples import context_for, define, echo, names, of_session
from toolcrib.host_tools import (
    HostToolRegistry,
    Origin,
    RegistryChange,
    SessionHandler,
    ToolContext,
)

THREADS = 8
EACH = 25
ROUNDS = 200


@pytest.fixture(autouse=True)
def _restless_threads() -> Iterator[None]:
    """Threads change places as often as they can, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """Run `work` in every thread at once and give what each returned."""
    start = threading.Barrier(THREADS)

    def one(number: int) -> Any:
        start.wait(PATIENCE)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def test_every_thread_registers_its_own() -> None:
    """R11: N threads with K names each leave N times K tools."""
    registry = HostToolRegistry()

    async def register(number: int) -> None:
        for index in range(EACH):
            await registry.register(define(f"tool_{number}_{index}"))
            await asyncio.sleep(0)

    in_threads(lambda number: asyncio.run(register(number)))

    wanted = {f"tool_{number}_{index}" for number in range(THREADS) for index in range(EACH)}
    assert set(names(registry.list_tools())) == wanted
    assert len(registry.list_tools()) == THREADS * EACH


def test_one_of_many_wins_a_name() -> None:
    """R11: exactly one registers it, and all the others get a ValueError."""
    registry = HostToolRegistry()
    definitions = [define(f"tool_{index}") for index in range(ROUNDS)]
    together = threading.Barrier(THREADS)

    async def race(index: int) -> bool:
        together.wait(PATIENCE)
        try:
            await registry.register(definitions[index])
        except ValueError:
            return False
        return True

    async def every_round() -> list[bool]:
        return [await race(index) for index in range(ROUNDS)]

    won = in_threads(lambda _: asyncio.run(every_round()))

    assert [sum(column) for column in zip(*won, strict=True)] == [1] * ROUNDS


def test_readers_are_never_disturbed() -> None:
    """R11: listing and making tools while others register and unregister never raises, and sees
    only whole states.
    """
    registry = HostToolRegistry()
    registry.add(define("steady"))

    async def write(number: int) -> None:
        for _ in range(EACH):
            await registry.register(define(f"tool_{number}"))
            await registry.register(of_session(f"own_{number}"), session_id="s")
            assert await registry.unregister(f"tool_{number}")
            assert await registry.unregister(f"own_{number}", session_id="s")

    def read(number: int) -> None:
        for _ in range(EACH * 4):
            listed = names(registry.list_tools(session_id="s"))
            made = registry.create_session_tools("s", context_for("s"))
            assert listed[0] == made[0].name == "steady"
            assert len(set(listed)) == len(listed)

    in_threads(lambda number: read(number) if number % 2 else asyncio.run(write(number)))

    assert names(registry.list_tools(session_id="s")) == ["steady"]


def test_nobody_sees_half_a_swap() -> None:
    """R11, R30: a reader sees all the tools of before or all those of after."""
    registry = HostToolRegistry()
    origin = Origin("file")
    sets = [[(define(f"{letter}{index}"), origin) for index in range(EACH)] for letter in "ab"]
    registry.swap("file", sets[0])

    is_over = threading.Event()

    def write() -> None:
        for index in range(EACH * 2):
            registry.swap("file", sets[(index + 1) % 2])
        is_over.set()

    def read() -> set[str]:
        seen: set[str] = set()
        while not is_over.is_set():
            listed = names(registry.list_tools())
            seen.add("".join(sorted({name[0] for name in listed})) + str(len(listed)))
        return seen

    found = in_threads(lambda number: read() if number else write())

    assert set[str]().union(*found[1:]) <= {f"a{EACH}", f"b{EACH}"}


def test_listeners_hear_one_order() -> None:
    """R15: what each listener hears, in whichever thread, is the order in which it happened."""
    registry = HostToolRegistry()
    heard: list[list[RegistryChange]] = [[], []]
    for listener in heard:
        registry.subscribe(listener.extend)

    async def write(number: int) -> None:
        for index in range(EACH):
            await registry.register_or_replace(define("one", version=f"{number}.{index}.0"))

    in_threads(lambda number: asyncio.run(write(number)))

    assert heard[0] == heard[1]
    assert len(heard[0]) == THREADS * EACH
    assert heard[0][0].old is None
    for before, after in zip(heard[0], heard[0][1:], strict=False):
        assert after.old == before.new
    assert registry.get("one") == heard[0][-1].new


def test_a_factory_is_called_once_for_all_threads() -> None:
    """R14: all of them get the handler that one of them made."""
    registry = HostToolRegistry()
    made: list[str] = []

    def factory(context: ToolContext) -> Any:
        made.append(context.session_id)
        return echo

    registry.add(of_session(factory=factory))
    together = threading.Barrier(THREADS)

    def every_round(_: int) -> None:
        for index in range(ROUNDS):
            together.wait(PATIENCE)
            registry.availability(context_for(f"s{index}"))

    in_threads(every_round)

    assert sorted(made) == sorted(f"s{index}" for index in range(ROUNDS))


async def test_a_session_that_closes_waits_for_what_is_being_made() -> None:
    """R14: a handler whose factory still runs in a thread is closed as well, not forgotten."""
    registry = HostToolRegistry()
    entered, leave = threading.Event(), threading.Event()
    closed: list[str] = []

    def factory(context: ToolContext) -> SessionHandler:
        entered.set()
        leave.wait(PATIENCE)
        return SessionHandler(echo, close=lambda: closed.append(context.session_id))

    registry.add(of_session(factory=factory))
    making = asyncio.create_task(
        asyncio.to_thread(registry.create_session_tools, "s", context_for("s"))
    )
    await asyncio.to_thread(entered.wait, 30)

    closing = asyncio.create_task(registry.close_session("s"))
    await asyncio.sleep(0)
    assert not closing.done()
    leave.set()
    await closing
    await making

    assert closed == ["s"]


async def test_giving_up_on_a_close_does_not_break_what_is_being_made() -> None:
    """R14: who stops waiting cancels only the wait."""
    registry = HostToolRegistry()
    entered, leave = threading.Event(), threading.Event()

    def factory(context: ToolContext) -> Any:
        entered.set()
        leave.wait(PATIENCE)
        return echo

    registry.add(of_session(factory=factory))
    making = asyncio.create_task(
        asyncio.to_thread(registry.create_session_tools, "s", context_for("s"))
    )
    await asyncio.to_thread(entered.wait, 30)
    closing = asyncio.create_task(registry.close_session("s"))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    leave.set()

    assert names(await making) == ["search"]
