"""The workflow of a turn: advance the session until its turn has ended, and wait in between.

Temporal replays this module, so it decides only by what activities and signals told it, and it
imports nothing of the package. Temporal's history holds session ids and times, never what was said:
the ledger is the truth, and to advance a session once too often does no harm.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import CancelledError, is_cancelled_exception

WORKFLOW = "toolcrib.turn"
WAKE = "wake"
"""The signal that something has changed for the session: a prompt, a decision."""
ADVANCE = "toolcrib.advance"
CANCEL = "toolcrib.cancel"

_LEAST_WAIT_SECONDS = 1.0
"""The server's clock and the database's may differ: a deadline that has passed for the one only
must not make a loop without a pause."""
_LONGEST_ELSEWHERE_SECONDS = 15.0

_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=0.5),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=15),
    maximum_attempts=0,
)
"""For ever: a turn that was accepted is owed an end, however long a database is away."""


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """Whose turn it is, and how long its activities may take."""

    session_id: str
    heartbeat_seconds: float
    turn_seconds: float


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What one activity came to, as the runtime says it."""

    status: str
    wake_at: float | None = None
    has_more: bool = False
    """Whether another turn of the session is queued behind the one that has ended."""


@workflow.defn(name=WORKFLOW)
class TurnWorkflow:
    """Runs while a session has a turn that has not ended."""

    def __init__(self) -> None:
        self._is_woken = False
        self._seconds_elsewhere = _LEAST_WAIT_SECONDS

    @workflow.signal(name=WAKE)
    def wake(self) -> None:
        """Look at the session again."""
        self._is_woken = True

    @workflow.run
    async def run(self, order: TurnOrder) -> str:
        """Advance the session until there is nothing left to do; returns the last status.

        A workflow that is cancelled cancels its turn in the ledger. One that is terminated is
        started again for as long as the turn has not ended.
        """
        try:
            return await self._until_ended(order)
        except BaseException as error:
            if not is_cancelled_exception(error):
                raise
            # The turn would be taken up again, were it only the workflow that ended.
            await self._activity(CANCEL, order)
            raise

    async def _until_ended(self, order: TurnOrder) -> str:
        while True:
            # Whoever wakes it from here on may know more than the activity will have read.
            self._is_woken = False
            report = await self._activity(ADVANCE, order)
            if workflow.cancellation_reason() is not None:
                # The activity had ended before it heard of it.
                raise CancelledError("the workflow was cancelled")
            if report.status in ("waiting", "elsewhere"):
                await self._wait(report)
            elif not (report.has_more or self._is_woken):
                return report.status
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(order)

    async def _activity(self, name: str, order: TurnOrder) -> TurnReport:
        return await workflow.execute_activity(
            name,
            order.session_id,
            result_type=TurnReport,
            start_to_close_timeout=timedelta(seconds=order.turn_seconds),
            heartbeat_timeout=timedelta(seconds=order.heartbeat_seconds),
            retry_policy=_RETRIES,
            # The session is let go before anything else is done about it.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )

    async def _wait(self, report: TurnReport) -> None:
        """Until somebody wakes it, or its time has come."""
        timeout: float | None
        if report.status == "elsewhere":
            timeout = self._seconds_elsewhere
            self._seconds_elsewhere = min(2 * timeout, _LONGEST_ELSEWHERE_SECONDS)
        else:
            self._seconds_elsewhere = _LEAST_WAIT_SECONDS
            timeout = report.wake_at
            if timeout is not None:
                timeout = max(timeout - workflow.now().timestamp(), _LEAST_WAIT_SECONDS)
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._is_woken, timeout=timeout)
