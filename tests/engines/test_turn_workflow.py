"""The workflow of a turn, on a real Temporal server; what it advances is played."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import EventType, TaskQueueKind
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from tests.helpers.patience import PATIENCE
from tests.servers.temporal import TemporalServer
from toolcrib.engines.temporal.connection import (
    WORKFLOW_PREFIX,
    connect,
    start_workflow,
    turn_worker,
)
from toolcrib.engines.temporal.options import TemporalOptions
from toolcrib.engines.temporal.turn_activities import TurnActivities
from toolcrib.engines.temporal.turn_workflow import TurnReport

pytestmark = pytest.mark.wire


@dataclass
class PlayedTurns:
    """Answers each `advance` with the next of `steps`; an exception is raised."""

    steps: list[TurnReport | Exception]
    advanced: list[str] = field(default_factory=list[str])
    cancelled: list[str] = field(default_factory=list[str])
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: an advance ends at once. A test clears it to look at one that runs."""
    has_let_go: asyncio.Event = field(default_factory=asyncio.Event)
    change: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.goes_on.set()

    async def advance(self, session_id: str) -> TurnReport:
        self.advanced.append(session_id)
        await self._tell()
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            self.has_let_go.set()
            raise
        step = self.steps.pop(0)
        await self._tell()
        if isinstance(step, Exception):
            raise step
        return step

    async def cancel(self, session_id: str) -> None:
        self.cancelled.append(session_id)

    async def begun(self) -> None:
        """Wait until one runs."""
        await self._until(lambda: bool(self.advanced))

    async def left(self, count: int) -> None:
        """Wait until only so many steps are left."""
        await self._until(lambda: len(self.steps) == count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self.change:
            await self.change.wait_for(holds)

    async def _tell(self) -> None:
        async with self.change:
            self.change.notify_all()


@dataclass
class Queue:
    """A task queue of its own on the server, and the workflow of one session there."""

    client: Client
    options: TemporalOptions
    session_id: str = "s_1"

    async def wake(self) -> None:
        await start_workflow(self.client, self.options, self.session_id)

    @property
    def handle(self) -> WorkflowHandle[object, str]:
        return self.client.get_workflow_handle(
            f"{WORKFLOW_PREFIX}{self.session_id}", result_type=str
        )

    @asynccontextmanager
    async def worker(
        self, turns: PlayedTurns, *, drain_seconds: float = 0.0
    ) -> AsyncGenerator[None]:
        activities = TurnActivities(turns.advance, turns.cancel, self.options.heartbeat_seconds)
        worker = turn_worker(self.client, self.options, activities, drain_seconds=drain_seconds)
        async with worker:
            yield


@pytest.fixture
async def queue(temporal: TemporalServer) -> Queue:
    name = uuid.uuid4().hex
    options = TemporalOptions(address=temporal.address, task_queue=name, heartbeat_seconds=2.0)
    return Queue(await connect(options), options, f"s_{name}")


async def test_a_turn_is_advanced_until_it_is_answered(queue: Queue) -> None:
    """A turn that waits is advanced again when somebody wakes it, and an answer ends it."""
    turns = PlayedTurns([TurnReport("waiting"), TurnReport("answered")])
    async with queue.worker(turns):
        await queue.wake()
        await turns.left(1)
        await queue.wake()

        assert await queue.handle.result() == "answered"
    assert turns.advanced == [queue.session_id] * 2


async def test_a_turn_that_waits_is_bound_to_no_process(queue: Queue) -> None:
    """What wakes a turn goes to any worker, and not first to the one that ran it before, which may
    be dead.
    """
    turns = PlayedTurns([TurnReport("waiting"), TurnReport("answered")])
    async with queue.worker(turns):
        await queue.wake()
        await turns.left(1)
        await queue.wake()
        await queue.handle.result()
        history = await queue.handle.fetch_history()

    asked = [
        event.workflow_task_scheduled_event_attributes.task_queue.kind
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
    ]
    assert len(asked) > 2
    assert set(asked) == {TaskQueueKind.TASK_QUEUE_KIND_NORMAL}


async def test_a_step_that_a_worker_took_with_it_is_soon_given_to_another(queue: Queue) -> None:
    """A worker that ends right after it took a step of the workflow holds the turn up for no longer
    than a lease, and not for the ten seconds that are the server's own.
    """
    async with queue.worker(PlayedTurns([TurnReport("answered")])):
        await queue.wake()
        await queue.handle.result()
        history = await queue.handle.fetch_history()

    started = history.events[0].workflow_execution_started_event_attributes
    assert started.workflow_task_timeout.ToTimedelta() <= timedelta(seconds=3)


async def test_a_deadline_wakes_a_turn_that_waits(queue: Queue) -> None:
    """Nobody decides; the time that the runtime named comes."""
    turns = PlayedTurns([TurnReport("waiting", time.time() + 0.5), TurnReport("answered")])
    async with queue.worker(turns):
        await queue.wake()

        assert await queue.handle.result() == "answered"
    assert len(turns.advanced) == 2


async def test_a_wake_while_it_runs_is_not_lost(queue: Queue) -> None:
    """Whoever wakes a turn may know more than the run that is about to end has read."""
    turns = PlayedTurns([TurnReport("answered"), TurnReport("idle")])
    turns.goes_on.clear()
    async with queue.worker(turns):
        await queue.wake()
        await turns.begun()
        await queue.wake()
        turns.goes_on.set()

        assert await queue.handle.result() == "idle"
    assert len(turns.advanced) == 2


async def test_the_next_turn_of_a_session_follows_at_once(queue: Queue) -> None:
    """A prompt that was queued behind the one that has ended needs nobody to wake it."""
    turns = PlayedTurns([TurnReport("answered", has_more=True), TurnReport("failed")])
    async with queue.worker(turns):
        await queue.wake()

        assert await queue.handle.result() == "failed"


async def test_a_session_that_is_open_elsewhere_is_tried_again(queue: Queue) -> None:
    """It is not given up while another process has it open."""
    turns = PlayedTurns([TurnReport("elsewhere"), TurnReport("answered")])
    async with queue.worker(turns):
        await queue.wake()

        assert await queue.handle.result() == "answered"


async def test_what_fails_is_tried_again_and_its_cause_stays_here(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """A database that is away does not end a turn, and its password is in no history."""
    turns = PlayedTurns([OSError("postgresql://u:hunter2@db"), TurnReport("answered")])
    async with queue.worker(turns):
        await queue.wake()

        assert await queue.handle.result() == "answered"
    history = await queue.handle.fetch_history()
    assert b"hunter2" not in b"".join(event.SerializeToString() for event in history.events)
    assert "advance failed for the session" in caplog.text


async def test_a_cancelled_workflow_cancels_its_turn(queue: Queue) -> None:
    """An operator who cancels the workflow ends the turn in the ledger, after it was let go."""
    turns = PlayedTurns([])
    turns.goes_on.clear()
    async with queue.worker(turns):
        await queue.wake()
        await turns.begun()
        await queue.handle.cancel()

        with pytest.raises(WorkflowFailureError):
            await queue.handle.result()
    assert turns.has_let_go.is_set()
    assert turns.cancelled == [queue.session_id]


async def test_a_workflow_cancelled_while_it_waits_cancels_its_turn(queue: Queue) -> None:
    """The same where no activity runs."""
    turns = PlayedTurns([TurnReport("waiting")])
    async with queue.worker(turns):
        await queue.wake()
        await turns.left(0)
        await queue.handle.cancel()

        with pytest.raises(WorkflowFailureError):
            await queue.handle.result()
    assert turns.cancelled == [queue.session_id]


async def test_a_process_that_stops_hands_its_turn_over(queue: Queue) -> None:
    """Its turn is let go and not cancelled: the next process gets it at once."""
    stopping, other = PlayedTurns([]), PlayedTurns([TurnReport("answered")])
    stopping.goes_on.clear()
    async with queue.worker(stopping):
        await queue.wake()
        await stopping.begun()
    assert stopping.has_let_go.is_set()

    async with queue.worker(other):
        assert await queue.handle.result() == "answered"
    assert stopping.cancelled == other.cancelled == []
    assert other.advanced == [queue.session_id]


async def test_a_turn_that_a_process_lets_go_while_it_stops_is_not_waited_with(
    queue: Queue,
) -> None:
    """The runtime has let it go for others, within the drain time: the server gives it to another
    process, and the workflow neither hears of it nor waits until it looks again.
    """
    stopping = PlayedTurns([TurnReport("elsewhere")])
    stopping.goes_on.clear()
    async with queue.worker(stopping, drain_seconds=PATIENCE):
        await queue.wake()
        await stopping.begun()
        asyncio.get_running_loop().call_later(0.2, stopping.goes_on.set)

    async with queue.worker(PlayedTurns([TurnReport("answered")])):
        assert await queue.handle.result() == "answered"
        history = await queue.handle.fetch_history()
    kinds = [event.event_type for event in history.events]
    assert EventType.EVENT_TYPE_TIMER_STARTED not in kinds
    assert kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1


async def test_a_process_that_drains_ends_its_turn(queue: Queue) -> None:
    """Within the drain time a turn ends where it runs."""
    turns = PlayedTurns([TurnReport("answered")])
    turns.goes_on.clear()
    async with queue.worker(turns, drain_seconds=PATIENCE):
        await queue.wake()
        await turns.begun()
        asyncio.get_running_loop().call_later(0.2, turns.goes_on.set)

    assert len(turns.advanced) == 1
    assert not turns.has_let_go.is_set()
