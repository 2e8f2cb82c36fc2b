"""What becomes of calls when their process cannot count on its lease any more."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.calls.places import history
from toolcrib.calls.executor import Executor
from toolcrib.errors import LeaseLost
from toolcrib.ledger.events import CallInDoubt, CallStarted, CallUnrecorded, ToolInvoked
from toolcrib.session.session import Session
from toolcrib.store import Lease, SqliteStore
from toolcrib.tools.decorator import tool


class UnsureStore(SqliteStore):
    """A store whose leases cannot be counted on when the test says so."""

    is_cut_off = False

    def is_sure(self, lease: Lease) -> bool:
        return not self.is_cut_off and super().is_sure(lease)

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        self.on_lost = on_lost
        return super().watch_lease(lease, on_lost)

    def lose(self) -> None:
        """Tell it as a store does: from a thread of its own."""
        self.is_cut_off = True
        thread = threading.Thread(target=self.on_lost)
        thread.start()
        thread.join()


class Till:
    """Tools that note what they do."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.paid: list[int] = []
        self.was_cancelled = False
        self.release = threading.Event()

    @property
    def tools(self) -> list[Any]:
        @tool
        async def pay(amount: int) -> str:
            """Pay at once."""
            self.paid.append(amount)
            return "paid"

        @tool
        async def pay_slowly(amount: int) -> str:
            """Pay in the end."""
            self.began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
            self.paid.append(amount)
            return "paid"

        @tool
        async def pay_anyway(amount: int) -> str:
            """Pay in the end, whoever cancels it."""
            self.began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.paid.append(amount)
            return "paid"

        loop = asyncio.get_running_loop()

        @tool
        def pay_in_thread(amount: int) -> str:
            """Pay in a thread."""
            loop.call_soon_threadsafe(self.began.set)
            self.release.wait()
            self.paid.append(amount)
            return "paid"

        return [pay, pay_slowly, pay_anyway, pay_in_thread]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[UnsureStore]:
    with UnsureStore(tmp_path / "s.db") as store:
        yield store


async def left_over(store: UnsureStore) -> list[str]:
    """The ids of the calls that the next writer of the session finds in doubt."""
    store.is_cut_off = False
    session = await Session.open(store, "s")
    doubts = [event.call_id for event in history(session) if isinstance(event, CallInDoubt)]
    await session.close()
    return doubts


async def test_no_handler_begins_without_a_sure_lease(store: UnsureStore) -> None:
    """The lease is checked between the durable start and the handler; the next writer finds the
    call in doubt, for nothing more is recorded here.
    """
    till, session = Till(), await Session.open(store, "s")
    executor = Executor(session, till.tools)
    store.is_cut_off = True

    with pytest.raises(LeaseLost, match="`pay` was not started"):
        await executor.call("pay", {"amount": 1}, call_id="c1")

    kinds = [type(event) for event in history(session)]
    assert CallStarted in kinds
    assert ToolInvoked not in kinds
    assert till.paid == []
    await session.close()
    assert await left_over(store) == ["c1"]


async def test_nothing_begins_after_the_loss_though_the_store_is_back(store: UnsureStore) -> None:
    """A session that was lost here starts nothing more, even if nobody has taken it."""
    till, session = Till(), await Session.open(store, "s")
    executor = Executor(session, till.tools)
    store.lose()
    store.is_cut_off = False

    with pytest.raises(LeaseLost):
        await executor.call("pay", {"amount": 1})

    assert till.paid == []
    await session.close()


async def test_a_running_handler_is_stopped(store: UnsureStore) -> None:
    """It is cancelled, its end is not recorded, and whoever listens is told."""
    till, session = Till(), await Session.open(store, "s")
    seen: list[Any] = []
    session.bus.subscribe(CallUnrecorded, seen.append)
    executor = Executor(session, till.tools)
    call = asyncio.ensure_future(executor.call("pay_slowly", {"amount": 1}, call_id="c1"))
    await till.began.wait()
    await asyncio.to_thread(store.lose)

    with pytest.raises(LeaseLost, match="`pay_slowly` was stopped"):
        await call

    assert till.was_cancelled
    assert till.paid == []
    assert ToolInvoked not in [type(event) for event in history(session)]
    assert [event.call_id for event in seen] == ["c1"]
    await session.close()
    assert await left_over(store) == ["c1"]


async def test_a_handler_that_has_ended_all_the_same_is_recorded(store: UnsureStore) -> None:
    """Who knows how a call ended says so, as long as the store takes it."""
    till, session = Till(), await Session.open(store, "s")
    executor = Executor(session, till.tools)
    call = asyncio.ensure_future(executor.call("pay_anyway", {"amount": 1}, call_id="c1"))
    await till.began.wait()
    await asyncio.to_thread(store.lose)

    assert (await call).text == "paid"
    await session.close()
    assert await left_over(store) == []


async def test_a_thread_that_runs_on_is_reported(
    store: UnsureStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A sync handler cannot be stopped; the log names the call that may take effect twice."""
    till, session = Till(), await Session.open(store, "s")
    executor = Executor(session, till.tools)
    call = asyncio.ensure_future(executor.call("pay_in_thread", {"amount": 1}, call_id="c1"))
    await till.began.wait()
    with caplog.at_level(logging.ERROR, "toolcrib.calls.lease_loss"):
        await asyncio.to_thread(store.lose)
        with pytest.raises(LeaseLost):
            await call

    assert "c1 of pay_in_thread runs on in a thread that cannot be stopped" in caplog.text
    till.release.set()
    await session.close()


async def test_the_turn_around_a_call_that_was_cancelled_records_nothing(
    store: UnsureStore,
) -> None:
    """Whoever awaits a call may be cancelled because of the loss, too; the call stays in doubt."""
    till, session = Till(), await Session.open(store, "s")
    executor = Executor(session, till.tools)
    call = asyncio.ensure_future(executor.call("pay_slowly", {"amount": 1}, call_id="c1"))
    await till.began.wait()
    store.is_cut_off = True
    await asyncio.to_thread(store.on_lost)
    call.cancel()

    with pytest.raises((asyncio.CancelledError, LeaseLost)):
        await call
    await session.close()
    assert await left_over(store) == ["c1"]
