"""Approvers: only a clear decision counts."""

import asyncio
import functools
import threading
from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.approval.samples import request
from tests.helpers.patience import PATIENCE
from toolcrib.approval.approvers import Approver, CallbackApprover, Reply, read_reply
from toolcrib.approval.decision import (
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Decision,
    Deny,
    Expire,
)
from toolcrib.approval.grant import NewGrant
from toolcrib.errors import InvalidDecision

JO = Actor("person", "jo")
RULE = Actor("rule", "callback")


@pytest.mark.parametrize("decision", [Approve(), Approve({"a": 1}), Deny("no"), Answer(None)])
async def test_a_decision_is_recorded_as_the_callbacks(decision: Decision) -> None:
    """A program's yes does not look like a person's yes."""
    approver: Approver = CallbackApprover(lambda asked: decision)

    assert await approver.ask(request()) == Reply(decision, RULE)


async def test_a_reply_says_who_decided() -> None:
    """A function that knows the person says so, and may add a grant."""
    reply = Reply(Approve(), JO, NewGrant("session"))

    assert await CallbackApprover(lambda asked: reply, "inbox").ask(request()) == reply


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        False,
        1,
        "approve",
        "yes",
        {},
        Approve,
        [Approve()],
        Expire(),
        Reply(Expire(), JO),
    ],
)
async def test_an_unclear_answer_is_no_answer(answer: Any) -> None:
    """R42: whatever is not a decision leaves the request open; only the clock expires it."""
    assert await CallbackApprover(lambda asked: answer).ask(request()) is None
    assert read_reply(answer, RULE) is None


async def decide_slowly(asked: ApprovalRequest, *, reason: str = "no") -> Decision:
    await asyncio.sleep(0)
    return Deny(reason)


class AsyncObject:
    async def __call__(self, asked: ApprovalRequest) -> Decision:
        return await decide_slowly(asked)


def decide_later(asked: ApprovalRequest) -> Awaitable[Decision]:
    return decide_slowly(asked)


@pytest.mark.parametrize(
    "fn",
    [
        decide_slowly,
        functools.partial(decide_slowly, reason="no"),
        AsyncObject(),
        decide_later,
    ],
    ids=["function", "partial", "object", "plain function"],
)
async def test_an_async_function_is_awaited(fn: Any) -> None:
    """However an async function is wrapped, its result counts, and not the coroutine."""
    assert await CallbackApprover(fn).ask(request()) == Reply(Deny("no"), RULE)


async def test_a_plain_function_may_block() -> None:
    """A function that waits for a person does not stop the event loop."""
    loop_went_on = threading.Event()

    def block(asked: ApprovalRequest) -> Decision:
        return Approve() if loop_went_on.wait(PATIENCE) else Deny()

    asking = asyncio.create_task(CallbackApprover(block).ask(request()))
    await asyncio.sleep(0)
    loop_went_on.set()

    assert await asking == Reply(Approve(), RULE)


class Blocker:
    """A plain function that does not come back until it is released."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.started = asyncio.Event()
        self.released = threading.Event()

    def __call__(self, asked: ApprovalRequest) -> None:
        self._loop.call_soon_threadsafe(self.started.set)
        # Longer than the tests wait: it must not come back by itself before they have judged.
        self.released.wait(PATIENCE)


async def test_an_async_function_needs_no_worker_thread() -> None:
    """Plain functions that wait for people cannot keep an async one from answering."""
    blocker = Blocker()
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1
    blocked = asyncio.create_task(CallbackApprover(blocker).ask(request()))
    await blocker.started.wait()

    try:
        async with asyncio.timeout(PATIENCE / 2):
            for fn in (decide_slowly, AsyncObject()):
                assert await CallbackApprover(fn).ask(request()) == Reply(Deny("no"), RULE)
    finally:
        blocker.released.set()
        await blocked


async def test_a_cancelled_question_does_not_wait_for_its_function() -> None:
    """A function that never comes back does not hold up whoever stopped asking."""
    blocker = Blocker()
    scope = anyio.CancelScope()

    async def ask() -> None:
        with scope:
            await CallbackApprover(blocker).ask(request())

    asking = asyncio.create_task(ask())
    await blocker.started.wait()
    scope.cancel()
    ended, _ = await asyncio.wait({asking}, timeout=PATIENCE / 2)
    blocker.released.set()

    assert ended == {asking}


async def test_the_function_gets_the_request() -> None:
    """What is decided about is what was asked."""
    seen: list[ApprovalRequest] = []
    asked = request({"path": "x"})

    await CallbackApprover(seen.append).ask(asked)

    assert seen == [asked]


async def test_an_error_is_not_an_answer() -> None:
    """A failing function's error reaches whoever asked; it never becomes a decision."""

    def fail(asked: ApprovalRequest) -> Decision:
        raise RuntimeError("down")

    with pytest.raises(RuntimeError, match="down"):
        await CallbackApprover(fail).ask(request())


@pytest.mark.parametrize("decision", [Deny(), Answer(1), Expire()])
def test_only_an_approval_carries_a_grant(decision: Decision) -> None:
    """Saying no and always yes at once is refused."""
    with pytest.raises(InvalidDecision):
        Reply(decision, JO, NewGrant("session"))
