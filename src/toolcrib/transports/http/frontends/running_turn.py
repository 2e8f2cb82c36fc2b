"""A turn of a chat while it runs, and the requests that follow it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.transports.http.frontends.client_calls import CallsElsewhere

if TYPE_CHECKING:
    from toolcrib.runtime.messages import PromptResult
    from toolcrib.transports.http.frontends.client_calls import FrontendCalls


@dataclass(slots=True)
class RunningTurn:
    """A turn that has not ended, begun here or at another replica, with the calls that the front
    end runs.
    """

    result: asyncio.Task[PromptResult]
    calls: FrontendCalls
    has_tools: bool
    """Whether the front end runs calls."""
    seen: int = 0
    """The last record that was shown before it waited for the front end."""


class StreamEnd:
    """Tells a stream that its client has disconnected."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def close(self) -> None:
        """End the stream."""
        self.ended.set()


def begun(running: RunningTurn) -> Callable[[], Awaitable[RunningTurn]]:
    """A function that begins nothing: the turn runs."""

    async def begin() -> RunningTurn:
        return running

    return begin


@asynccontextmanager
async def while_followed(running: RunningTurn) -> AsyncGenerator[RunningTurn]:
    """A turn while one request follows it. Whoever waits for that of another replica waits for
    this request alone.
    """
    try:
        yield running
    finally:
        if isinstance(running.calls, CallsElsewhere):
            await end_task(running.result)
            if not running.result.cancelled():
                # Keep asyncio from logging a refusal that the client left too early to read.
                running.result.exception()


async def end_task(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait until it has ended."""
    if task.done():
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
