"""What is due reaches the queue, whoever forgot to say so; the store and the queue are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.engines.shared_turns import PlayedRuntime, PlayedStore
from tests.helpers.patience import PATIENCE
from toolcrib.engines import QueueEngine
from toolcrib.engines.due_turns import DueTurns
from toolcrib.errors import UsageError
from toolcrib.runtime import RuntimeConfig, create_runtime
from toolcrib.store.shared_store import Hint


class Queue:
    """Takes session ids; refuses the first ones that it is told to."""

    def __init__(self, *, refuses: int = 0) -> None:
        self.sent: asyncio.Queue[str] = asyncio.Queue()
        self._refuses = refuses

    async def send(self, session_id: str) -> None:
        if self._refuses:
            self._refuses -= 1
            raise ConnectionError("the queue is away")
        await self.sent.put(session_id)

    async def next(self) -> str:
        return await asyncio.wait_for(self.sent.get(), PATIENCE)


@asynccontextmanager
async def started(
    queue: Queue, store: PlayedStore, poll_seconds: float = 0.02
) -> AsyncGenerator[QueueEngine]:
    engine = QueueEngine(queue.send, poll_seconds=poll_seconds)
    await engine.start(PlayedRuntime(store).as_runtime)
    try:
        yield engine
    finally:
        await engine.close()


async def test_whoever_is_woken_is_sent() -> None:
    """The process that made a turn due says so; nobody looks into the store for it."""
    queue = Queue()
    async with started(queue, PlayedStore(), poll_seconds=PATIENCE) as engine:
        await engine.wake("s_1")

        assert await queue.next() == "s_1"


async def test_a_lost_wake_up_is_found_in_the_store() -> None:
    """A process that died between the row and the queue loses nothing."""
    queue, store = Queue(), PlayedStore()
    async with started(queue, store):
        store.due.append("s_1")

        assert await queue.next() == "s_1"


async def test_a_hint_is_a_reason_to_look_now() -> None:
    """Without it the store would be asked much later."""
    queue, store = Queue(), PlayedStore("s_1")
    async with started(queue, store, poll_seconds=PATIENCE):
        assert await queue.next() == "s_1"
        store.due = ["s_2"]
        for hear in store.listeners:
            await asyncio.to_thread(hear, Hint("decision", "s_2"))

        assert await queue.next() == "s_2"
    assert store.listeners == []


async def test_a_queue_that_was_away_gets_it_later(caplog: pytest.LogCaptureFixture) -> None:
    """What it refused is sent again at the next look, and the log says why it was late."""
    queue = Queue(refuses=2)
    async with started(queue, PlayedStore("s_1")):
        assert await queue.next() == "s_1"
    assert "was not taken by the queue" in caplog.text


async def test_a_store_that_was_away_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """A database that restarts does not end the looking."""
    queue, store = Queue(), PlayedStore("s_1")
    store.is_away = True
    caplog.set_level("WARNING")
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()
    due_turns = store.due_turns

    def away(limit: int) -> Sequence[str]:
        try:
            return due_turns(limit)
        finally:
            loop.call_soon_threadsafe(seen.set)

    store.due_turns = away
    async with started(queue, store):
        await asyncio.wait_for(seen.wait(), PATIENCE)
        store.is_away = False

        assert await queue.next() == "s_1"
    assert "the database is away" in caplog.text


async def test_a_store_of_one_machine_needs_no_engine() -> None:
    """It is refused with what to do, instead of never driving anything."""
    async with create_runtime(RuntimeConfig()) as runtime:
        with pytest.raises(UsageError, match="postgresql://"):
            await QueueEngine(Queue().send).start(runtime)


def test_pauses_grow_while_a_turn_stays_due() -> None:
    """A queue whose workers are all busy is not filled with the same session."""
    due = DueTurns()

    sent_at = [now for now in range(60) if due.next(["s"], float(now))]

    assert sent_at == [0, 2, 6, 14, 30]


def test_a_turn_that_is_due_once_more_begins_anew() -> None:
    """Its last pause has nothing to do with the next decision."""
    due = DueTurns()
    assert due.next(["s"], 0.0) == ["s"]
    assert due.next([], 1.0) == []

    assert due.next(["s"], 1.5) == ["s"]
