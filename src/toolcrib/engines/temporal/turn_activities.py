"""The activities of a turn's workflow: what a process does for the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from toolcrib.engines.temporal.turn_workflow import ADVANCE, CANCEL, TurnReport

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TurnActivities:
    """Advances and cancels the turns of a runtime. Each may run any number of times, anywhere."""

    def __init__(
        self,
        advance: Callable[[str], Awaitable[TurnReport]],
        cancel: Callable[[str], Awaitable[None]],
        heartbeat_seconds: float,
    ) -> None:
        self._advance = advance
        self._cancel = cancel
        self._pause_seconds = heartbeat_seconds / 3

    @activity.defn(name=ADVANCE)
    async def advance(self, session_id: str) -> TurnReport:
        """Open the session, run its turn until it is answered or waits, and let go."""
        report = await self._alive("advance", session_id, self._advance(session_id))
        if report.status == "elsewhere" and activity.is_worker_shutdown():
            # The turn was let go for another process. The workflow would wait before it looks.
            raise _stopped()
        return report

    @activity.defn(name=CANCEL)
    async def cancel(self, session_id: str) -> TurnReport:
        """Write down in the ledger that the turn was cancelled."""
        await self._alive("cancel", session_id, self._cancel(session_id))
        return TurnReport("idle")

    async def _alive(self, name: str, session_id: str, work: Awaitable[T]) -> T:
        """Do something and give signs of life meanwhile: so the server learns of a process that
        died long before its time is up, and the process of a cancelled workflow.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                activity.heartbeat()
                await asyncio.wait([task], timeout=self._pause_seconds)
            return task.result()
        except asyncio.CancelledError:
            await _ended(task)
            details = activity.cancellation_details()
            if details is not None and details.cancel_requested:
                raise
            # This process stops, or the server has given the turn to another: not the workflow's
            # end. Left as it is, the error would be taken for one.
            raise _stopped() from None
        except Exception as error:
            logger.exception("%s failed for the session %s", name, session_id)
            # What it says stays in the log: others read the history of a workflow.
            raise ApplicationError(
                f"{name} failed; see the log of the process that tried", type=type(error).__name__
            ) from None


def _stopped() -> ApplicationError:
    """What lets the server give the turn to another process at once."""
    return ApplicationError(
        "the process stops; another one goes on",
        type="Stopped",
        next_retry_delay=timedelta(milliseconds=10),
    )


async def _ended(task: asyncio.Future[T]) -> None:
    """Cancel a task and wait until it has let go of its session, whatever it then raises."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a turn that was stopped ended with an error", exc_info=error)
