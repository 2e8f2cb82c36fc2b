"""Turns within calls end with them, wait for nobody, and go only so deep."""

import asyncio
import threading
from typing import Any

import pytest

from tests.calls.nested_turns import asking, look
from tests.calls.runs import failure, found
from tests.helpers.patience import PATIENCE
from toolcrib import Executor, Hooks, Limits, Session, tool
from toolcrib.errors import CallFailed
from toolcrib.ledger.events import TurnStarted
from toolcrib.session.turns import call_here
from toolcrib.testing import run_in_virtual_time


async def test_calls_within_a_call_do_not_wait_for_a_person() -> None:
    """C8, R48: the handler is on the stack and would not survive the wait; the call is denied,
    as one that the handler makes itself.
    """
    session = Session()
    ask, got = asking(session, "erase")

    await Executor(session, [ask]).call("ask")

    assert failure(got[0]) == "denied"
    assert session.approvals.pending() == []


@pytest.mark.parametrize(("max_depth", "deepest"), [(3, 3), (1, 1)])
async def test_turns_within_calls_go_only_so_deep(max_depth: int, deepest: int) -> None:
    """R48: prompts that evaluate prompts end at the limit, whatever sessions they use."""
    sessions = [Session(), Session()]
    errors: list[CallFailed] = []

    @tool
    async def dive(depth: int) -> int:
        """Go deeper."""
        executor = Executor(sessions[depth % 2], [dive], limits=Limits(max_depth=max_depth))
        try:
            with executor.turn():
                return (await executor.call("dive", {"depth": depth + 1})).value
        except CallFailed as error:
            errors.append(error)
            return depth

    outcome = await Executor(sessions[0], [dive]).call("dive", {"depth": 0})

    assert outcome.value == deepest
    assert [error.failure.kind for error in errors] == ["recursion_limit"]


async def test_turns_beside_each_other_are_not_deep() -> None:
    """A turn in a turn that no call is between, or one after the other, goes no deeper."""
    session = Session()
    executor = Executor(session, [look], limits=Limits(max_depth=1))

    for _ in range(3):
        with executor.turn(), executor.turn(), executor.turn():
            await executor.call("look")

    assert len(found(session, TurnStarted)) == 9


def test_a_handler_that_was_given_up_begins_nothing() -> None:
    """R18: a thread that outlives its call goes on, but asks no model any more."""
    session = Session()
    is_over, is_done = threading.Event(), threading.Event()
    errors: list[CallFailed] = []

    @tool(timeout=0.01)
    def block() -> None:
        """Block."""
        is_over.wait(PATIENCE)
        try:
            with Executor(session).turn():
                pass
        except CallFailed as error:
            errors.append(error)
        is_done.set()

    outcome = run_in_virtual_time(Executor(session, [block]).call("block"))
    is_over.set()

    assert is_done.wait(PATIENCE)
    assert failure(outcome) == "timeout"
    assert [error.failure.kind for error in errors] == ["cancelled"]
    assert found(session, TurnStarted) == []


@pytest.mark.parametrize(
    ("timeout", "deadline", "left"), [(5, None, 5), (None, 7, 7), (5, 3, 3), (None, None, None)]
)
def test_what_runs_in_a_call_knows_when_it_ends(
    timeout: float | None, deadline: float | None, left: float | None
) -> None:
    """C8: the handler's limit and the call's deadline, whichever comes first; afterwards, for
    post hooks, only the deadline.
    """
    seen: list[float | None] = []

    def look_at_the_clock() -> None:
        call = call_here()
        assert call is not None
        now = asyncio.get_running_loop().time()
        seen.append(None if call.ends_at is None else call.ends_at - now)

    @tool(timeout=timeout)
    async def work() -> None:
        """Work."""
        look_at_the_clock()

    async def post(ctx: Any, name: str, result: Any) -> Any:
        look_at_the_clock()
        return result

    async def scene() -> None:
        executor = Executor(Session(), [work], hooks=Hooks(global_post=post))
        now = asyncio.get_running_loop().time()
        await executor.call("work", deadline=now + deadline if deadline else None)

    run_in_virtual_time(scene())

    assert seen == [near(left), near(deadline)]


def near(seconds: float | None) -> Any:
    return None if seconds is None else pytest.approx(seconds, abs=0.5)
