"""Turns on a Temporal server: a workflow for each turn that has not ended."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from toolcrib.engines.queue_engine import QueueEngine, is_set_within
from toolcrib.engines.temporal.connection import connect, start_workflow, turn_worker
from toolcrib.engines.temporal.turn_activities import TurnActivities
from toolcrib.engines.temporal.turn_workflow import TurnReport

if TYPE_CHECKING:
    from temporalio.client import Client

    from toolcrib.engines.temporal.options import TemporalOptions
    from toolcrib.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0


class TemporalEngine:
    """Drives the turns of a runtime with a Temporal server."""

    def __init__(self, options: TemporalOptions) -> None:
        self._options = options
        self._queue = QueueEngine(self._send, poll_seconds=options.poll_seconds)
        self._client: Client | None = None
        self._ending = asyncio.Event()
        self.connected = asyncio.Event()
        """Whether the server has been reached, and turns are worked on."""
        self._driving: asyncio.Task[None] | None = None

    async def start(self, runtime: Runtime) -> None:
        """Begin to ask the server for turns, and to advance them. A server that does not answer is
        tried again: what was accepted meanwhile waits in the store.
        """
        await self._queue.start(runtime)
        self._driving = asyncio.create_task(self._drive(runtime))

    async def wake(self, session_id: str) -> None:
        """Have the session advanced soon. What the server does not hear is found in the store."""
        await self._queue.wake(session_id)

    async def stop(self) -> None:
        """Take no more turns from the server. Those that run here may go on for the drain time;
        then the server has them go on elsewhere.
        """
        self._ending.set()
        await self._queue.stop()

    async def close(self) -> None:
        """Wait until the server knows of every turn that ran here."""
        await self.stop()
        if self._driving is not None:
            await self._driving

    async def _send(self, session_id: str) -> None:
        await self.connected.wait()
        if self._client is not None:
            await start_workflow(self._client, self._options, session_id)

    async def _drive(self, runtime: Runtime) -> None:
        options, pause = self._options, _FIRST_PAUSE_SECONDS
        while not self._ending.is_set():
            try:
                self._client = await connect(options)
                pause = _FIRST_PAUSE_SECONDS
                await self._until_ending(self._client, runtime)
            except Exception as error:
                logger.warning(
                    "Temporal at %s, namespace %s: %s; turns wait in the store, the next attempt "
                    "is in %g s",
                    options.address,
                    options.namespace,
                    error,
                    pause,
                )
                self.connected.clear()
                await is_set_within(self._ending, pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _until_ending(self, client: Client, runtime: Runtime) -> None:
        """Work with a server until this process stops. Raises what the server refuses for good; one
        that is away for a while is waited for.
        """
        ending: asyncio.Task[Any] = asyncio.create_task(self._ending.wait())
        tasks = [ending]
        worker = None
        if self._options.runs_turns:
            activities = _activities(runtime, self._options.heartbeat_seconds)
            drain = runtime.config.drain_seconds
            worker = turn_worker(client, self._options, activities, drain_seconds=drain)
            tasks.append(asyncio.create_task(worker.run()))
        self.connected.set()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            if worker is not None:
                await worker.shutdown()
            ending.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _activities(runtime: Runtime, heartbeat_seconds: float) -> TurnActivities:
    async def advance(session_id: str) -> TurnReport:
        advanced = await runtime.advance(session_id)
        return TurnReport(advanced.status, advanced.wake_at, advanced.has_more)

    async def cancel(session_id: str) -> None:
        await runtime.cancel_prompt(session_id)

    return TurnActivities(advance, cancel, heartbeat_seconds)
