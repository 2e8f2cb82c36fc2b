"""Async code from blocking code."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from toolcrib import portal as portal_module
from toolcrib.errors import UsageError
from toolcrib.portal import Portal


async def thread_name() -> str:
    return threading.current_thread().name


async def nothing() -> None:
    return None


def test_work_runs_in_one_loop_of_its_own() -> None:
    """Connections made in one call can be used in the next: the loop is the same."""
    portal = Portal()

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert portal.run(loop, "it") is portal.run(loop, "it")
    assert portal.run(thread_name, "it") == "toolcrib-portal"
    portal.close(nothing)


def test_an_error_comes_out_where_the_call_was_made() -> None:
    """The caller sees the exception itself."""
    portal = Portal()

    async def fail() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        portal.run(fail, "it")
    portal.close(nothing)


async def test_a_running_loop_is_not_blocked() -> None:
    """Inside a loop the call is refused, with what to await instead; nothing was started."""
    portal = Portal()

    with pytest.raises(UsageError, match="an event loop runs here; await evaluate_async instead"):
        portal.run(thread_name, "evaluate_async")


def test_closing_ends_the_thread_after_the_last_work() -> None:
    """What was opened in the loop can be closed in it, and no thread is left behind."""
    portal = Portal(name="one-of-a-kind")
    closed: list[str] = []

    async def last() -> None:
        closed.append(await thread_name())

    portal.run(nothing, "it")
    portal.close(last)

    assert closed == ["one-of-a-kind"]
    assert "one-of-a-kind" not in [thread.name for thread in threading.enumerate()]


def test_closing_what_never_started_does_nothing() -> None:
    """No loop is made just to be closed."""
    closed: list[bool] = []

    async def last() -> None:
        closed.append(True)

    Portal().close(last)

    assert closed == []


def test_a_closed_portal_starts_again() -> None:
    """Closing ends what is there; it does not forbid what comes."""
    portal = Portal()
    portal.run(nothing, "it")
    portal.close(nothing)

    assert portal.run(thread_name, "it") == "toolcrib-portal"
    portal.close(nothing)


def test_many_threads_may_ask_at_once() -> None:
    """Their work runs side by side in the one loop."""
    portal = Portal()
    arrived = asyncio.Event()
    found: list[str] = []

    async def wait() -> str:
        await arrived.wait()
        return "waited"

    async def arrive() -> str:
        arrived.set()
        return "arrived"

    waiting = threading.Thread(target=lambda: found.append(portal.run(wait, "it")))
    waiting.start()
    assert portal.run(arrive, "it") == "arrived"
    waiting.join()

    assert found == ["waited"]
    portal.close(nothing)


def test_work_is_taken_however_late_the_thread_is_scheduled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first call waits for the thread that it started."""
    serve = vars(portal_module)["_serve"]

    def start_late(loop: asyncio.AbstractEventLoop) -> None:
        time.sleep(0.05)
        serve(loop)

    monkeypatch.setattr(portal_module, "_serve", start_late)
    portal = Portal()
    try:
        assert portal.run_from_thread(asyncio.sleep(0, "done")) == "done"
    finally:
        portal.close()


async def test_a_loop_reaches_the_portal_of_another_thread() -> None:
    """Awaiting from a running loop does not block it."""
    portal = Portal(name="another-thread")
    assert await portal.run_from_loop(thread_name()) == "another-thread"
    await asyncio.to_thread(portal.close)


async def test_a_portal_of_the_running_loop_refuses_to_block_it() -> None:
    """A wait for the loop that runs here would never end."""
    portal = Portal(loop=asyncio.get_running_loop())
    assert await portal.run_from_loop(asyncio.sleep(0, "here")) == "here"
    assert await asyncio.to_thread(portal.run_from_thread, asyncio.sleep(0, "there")) == "there"
    with pytest.raises(UsageError, match="use async code"):
        portal.run_from_thread(nothing())


def test_a_portal_that_was_closed_for_good_takes_nothing() -> None:
    """Whoever owned the loop is gone; a new thread would serve nobody."""
    portal = Portal()
    portal.run(nothing, "it")
    portal.close(for_good=True)
    with pytest.raises(UsageError, match="closed"):
        portal.run_from_thread(nothing())


def test_a_portal_of_a_loop_that_ended_takes_nothing() -> None:
    """Work for a loop that does not run would never be done."""

    async def make() -> Portal:
        return Portal(loop=asyncio.get_running_loop())

    portal = asyncio.run(make())
    with pytest.raises(UsageError, match="does not run"):
        portal.run_from_thread(nothing())
