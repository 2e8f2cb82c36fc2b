"""Stage seven: run the handler in its place, under its deadline, cancellable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.calls.admission import needs_thread
from toolcrib.calls.redaction import loggable
from toolcrib.calls.threads import shared_threads
from toolcrib.errors import CallEnded, ControlFlow, SandboxUnavailable, ToolTimeout
from toolcrib.failures import Failure
from toolcrib.tools.identity import Place
from toolcrib.tools.tool import confines_itself

if TYPE_CHECKING:
    from toolcrib.calls.call import Call, SessionCalls

logger = logging.getLogger(__name__)

STOP_GRACE_SECONDS = 1.0
"""How long a handler may take to react to its cancellation before it is given up."""


class Runner(Protocol):
    """Runs a call in one place other than this process: a sandbox, the connected client."""

    async def run(self, call: Call) -> Any:
        """Run the frozen call and return its value. Cancellation must stop it."""
        ...


class Execution:
    """Where calls run, and which ones are running."""

    def __init__(
        self,
        runners: Mapping[Place, Runner],
        default_timeout: float | None,
        calls: SessionCalls,
    ) -> None:
        self._calls = calls
        self._running = calls.running
        self._runners = dict(runners)
        self._default_timeout = default_timeout
        self._given_up: set[asyncio.Future[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def check_place(self, call: Call) -> None:
        """End a call of a tool that is not local when nothing here can run it."""
        place = call.tool.ref.place
        if place == "provider":
            raise CallEnded(
                "unavailable",
                f"`{call.name}` is run by the model's provider; it cannot be called from here.",
            )
        if place not in self._runners and not confines_itself(call.tool.tool.handler):
            raise CallEnded("unavailable", f"Nothing is connected that could run `{call.name}`.")

    def check_lease(self, call: Call) -> None:
        """Raise `LeaseLost` unless no other process can have become the writer of the session.
        Asked between the durable start and the handler.
        """
        session = call.session
        if self._calls.is_lost or not session.store.is_sure(session.ledger.lease):
            from toolcrib.calls.lease_loss import not_started

            self._calls.is_lost = True
            raise not_started(call)

    async def execute(self, call: Call) -> None:
        """Run the handler. What it returns or raises becomes the call's result."""
        loop = self._loop
        task = None if loop is None else asyncio.current_task(loop)
        if task is None:
            task = self._find_task()
        call.task = task
        # A cancellation that the task met before this call is not the call's to pass on.
        cancelled_before = task.cancelling()
        running, timeout = self._running, call.tool.tool.timeout or self._default_timeout
        running[call.call_id] = call
        try:
            if timeout is None and call.deadline is None:
                call.succeed(await self._begin(call))
            else:
                call.succeed(await self._limited(call, self._limit(call, timeout)))
        except asyncio.CancelledError:
            # Two things cancel this task: `cancel(call)`, which ends the call alone and is counted
            # in `call.cancels`, and whoever awaits the call, whose cancellation must go on up.
            call.is_left_running = call.is_left_running or needs_thread(call)
            if not call.cancels:
                raise
        except ControlFlow:
            # A handler that turns its cancellation into a signal is cancelled all the same.
            if not call.cancels:
                raise
        except SandboxUnavailable as error:
            raise CallEnded("unavailable", f"`{call.name}` was not run: {error}.") from None
        except Exception as error:
            call.fail(error)
        finally:
            del running[call.call_id]
            # The tool's own limit is the handler's; hooks that come after it have their own.
            call.ends_at = call.deadline
        if call.cancels:
            await self._end_cancelled(call, task, cancelled_before)

    async def _end_cancelled(
        self, call: Call, task: asyncio.Task[Any], cancelled_before: int
    ) -> None:
        """End a call that was cancelled alone, whatever its handler made of it."""
        has_value = call.is_settled and call.error is None
        await _take_back(call, task, cancelled_before)
        if not self._calls.is_lost:
            raise CallEnded.of(cancelled(call))
        # A handler that has ended all the same is recorded, if the store still takes it.
        if not has_value:
            from toolcrib.calls.lease_loss import stopped

            raise stopped(call)

    def _find_task(self) -> asyncio.Task[Any]:
        """The running task. Asking for the running loop costs a system call, so it is kept."""
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)
        assert task is not None, "a call runs in a task"
        return task

    def _begin(self, call: Call) -> Awaitable[Any]:
        tool = call.tool
        if tool.ref.place != "local" and tool.ref.place in self._runners:
            return self._runners[tool.ref.place].run(call)
        if tool.is_async:
            return tool.invoke(call.params, call.context)
        return shared_threads().submit(tool.invoke, call.params, call.context)

    def _limit(self, call: Call, timeout: float | None) -> float:
        """How many seconds the call has, by its timeout and its deadline."""
        now = asyncio.get_running_loop().time()
        ends = [] if call.deadline is None else [call.deadline]
        if timeout is not None:
            ends.append(now + timeout)
        # What begins inside the call may not outlive it.
        call.ends_at = ends_at = min(ends)
        if call.context is not None:
            call.context.deadline = ends_at
        return max(0.0, ends_at - now)

    async def _limited(self, call: Call, limit: float) -> Any:
        """Run with a limit that binds whatever the handler does.

        The handler gets a task of its own: one that swallows its cancellation, or a thread that
        cannot be stopped, is given up and reported as still running.
        """
        if limit <= 0:
            # What has no time left is not begun.
            raise _timed_out(call, limit)
        loop, expires_at = asyncio.get_running_loop(), call.ends_at
        assert expires_at is not None, "a limit has an end"
        work = asyncio.ensure_future(self._begin(call))
        try:
            await asyncio.wait((work,), timeout=limit)
            if call.person is not None:
                expires_at = await _within_moved_limit(call, work, expires_at)
        except asyncio.CancelledError:
            await self._stop(call, work)
            raise
        if not work.done():
            await self._stop(call, work)
            raise _timed_out(call, limit)
        if loop.time() > expires_at:
            # It blocked the loop past its limit, or what it waited for ended with the limit; a
            # late result is not a result.
            _retrieve(work)
            raise _timed_out(call, limit)
        return work.result()

    async def _stop(self, call: Call, work: asyncio.Future[Any]) -> None:
        """Cancel the handler; one that does not stop within the grace is given up."""
        work.cancel()
        try:
            if isinstance(work, asyncio.Task):
                await asyncio.wait((work,), timeout=STOP_GRACE_SECONDS)
        finally:
            # Also when the wait itself is cancelled: somebody must look at what becomes of it.
            if work.done():
                _retrieve(work)
            else:
                self._given_up.add(work)
                work.add_done_callback(partial(self._forget, call))
            # A thread's future is done as soon as it is cancelled, but the thread goes on.
            call.is_left_running = not work.done() or needs_thread(call)

    def _forget(self, call: Call, work: asyncio.Future[Any]) -> None:
        self._given_up.discard(work)
        error = None if work.cancelled() else work.exception()
        if error is not None:
            logger.warning(
                "call %s of %s was given up and failed later",
                call.call_id,
                call.name,
                exc_info=loggable(call, error),
            )


async def _within_moved_limit(call: Call, work: asyncio.Future[Any], expires_at: float) -> float:
    """Wait on for a handler whose time stood still while it waited for a person. Returns when its
    time is over.
    """
    loop, person = asyncio.get_running_loop(), call.person
    assert person is not None, "the call has waited for a person"
    while not work.done():
        expires_at = call.ends_at if call.ends_at is not None else expires_at
        if person.is_on:
            over = asyncio.ensure_future(person.until_over())
            try:
                await asyncio.wait((work, over), return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
        elif loop.time() < expires_at:
            await asyncio.wait((work,), timeout=expires_at - loop.time())
        else:
            break
    return call.ends_at if call.ends_at is not None else expires_at


async def _take_back(call: Call, task: asyncio.Task[Any], cancelled_before: int) -> None:
    """Take back the cancellations of a call. One of whoever awaits the call goes on up."""
    call.error = None
    with suppress(asyncio.CancelledError):
        # One that the handler has not met yet arrives here, not where the call is awaited.
        await asyncio.sleep(0)
    # Only the call's own cancellations are taken back; what remains is meant for the awaiting task.
    for _ in range(call.cancels):
        task.uncancel()
    if task.cancelling() > cancelled_before:
        raise asyncio.CancelledError


def cancelled(call: Call) -> Failure:
    """The failure of a call that was cancelled while, or before, it ran."""
    message = f"The call of `{call.name}` was cancelled.{_left_running(call)}"
    return Failure("cancelled", message, still_running=call.is_left_running)


def _timed_out(call: Call, limit: float) -> ToolTimeout:
    message = f"`{call.name}` did not finish within {limit:g} seconds.{_left_running(call)}"
    return ToolTimeout(message, still_running=call.is_left_running)


def _left_running(call: Call) -> str:
    return " It could not be stopped and is still running." if call.is_left_running else ""


def _retrieve(work: asyncio.Future[Any]) -> None:
    """Look at an exception nobody will await, so that asyncio does not complain about it."""
    if not work.cancelled():
        work.exception()


def cancel(call: Call) -> bool:
    """Stop one running call, and not whoever awaits it. False when it is not running."""
    if call.task is None:
        return False
    # Counted first: `execute` tells by the count whose cancellation it has caught.
    call.cancels += 1
    return call.task.cancel()
