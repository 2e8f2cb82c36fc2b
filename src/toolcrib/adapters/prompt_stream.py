"""`PromptStream`: an evaluation that is followed with `async for`.

The evaluation runs in a task of its own. It waits for its reader at every event of the model's
stream and before every request, so a reader that is slow slows it down and loses nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from toolcrib.adapters.answer import PromptResponse
from toolcrib.errors import UsageError
from toolcrib.ledger.events import Event
from toolcrib.ledger.prompt_events import HostedToolProgress
from toolcrib.session.bus import EventBus

if TYPE_CHECKING:
    from toolcrib.session.session import Session

O = TypeVar("O")  # noqa: E741

MAX_UNREAD: Final = 256
"""How many events wait for a reader before the evaluation does."""
_IMAGE_CHARS: Final = 64 * 1024
"""How much of a partial image weighs as much as an event."""


class UnreadEvents:
    """Events between an evaluation and its reader. They are added in any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._events: deque[Event] = deque()
        self._guard = threading.Lock()
        self._weight = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def add(self, event: Event) -> None:
        """Keep an event for the reader."""
        with self._guard:
            self._events.append(event)
            self._weight += _weight(event)
            is_full = self._weight >= MAX_UNREAD
        if threading.get_ident() == self._thread:
            self._note(is_full)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, is_full)

    def take(self) -> Event | None:
        """The next event; None when there is none yet."""
        with self._guard:
            if not self._events:
                return None
            event = self._events.popleft()
            self._weight -= _weight(event)
            has_room = self._weight < MAX_UNREAD
        if has_room:
            self._room.set()
        return event

    async def wait(self, ending: asyncio.Future[Any]) -> None:
        """Wait until there may be an event, or the evaluation is over."""
        self._changed.clear()
        if self._events or ending.done():
            return
        ending.add_done_callback(self._end)
        try:
            await self._changed.wait()
        finally:
            ending.remove_done_callback(self._end)

    async def wait_for_room(self) -> None:
        """Wait until the reader has caught up. A prompt within a call may run in another loop; it
        does not wait.
        """
        if asyncio.get_running_loop() is not self._loop:
            return
        # What other threads added is noted in a later step of the loop.
        if self._weight >= MAX_UNREAD:
            self._room.clear()
        await self._room.wait()

    def _note(self, is_full: bool) -> None:
        self._changed.set()
        if is_full and self._weight >= MAX_UNREAD:
            self._room.clear()

    def _end(self, _: object) -> None:
        self._changed.set()


_reader: Final[ContextVar[UnreadEvents | None]] = ContextVar("toolcrib_reader", default=None)


async def reader_ready() -> None:
    """Wait until whoever follows the running evaluation has room for more events."""
    unread = _reader.get()
    if unread is not None:
        await unread.wait_for_room()


def _note_error(task: asyncio.Task[Any]) -> None:
    """Take note of an error that nobody is left to hear of."""
    if not task.cancelled():
        task.exception()


def _weight(event: Event) -> int:
    if isinstance(event, HostedToolProgress) and event.image is not None:
        return 1 + len(event.image.base64) // _IMAGE_CHARS
    return 1


class PromptStream(Generic[O]):
    """A prompt that is evaluated. `async for` yields the events of its session as they happen, such
    as `TextDelta`, `ReasoningDelta`, `ArgumentsDelta`, `HostedToolProgress`, `ToolProgress`,
    `ApprovalRequested` and `ToolInvoked`. The last item is the `PromptResponse`, and nothing else
    is one: `isinstance(item, PromptResponse)` tells it apart, also for a type checker. `await`
    passes over the events and returns it; `response` has it afterwards.

    The evaluation begins with the first step. Its error is raised where the next item would be.
    Leaving the loop cancels it; `aclose`, or leaving it as a context manager, waits until it has
    ended. What is in the ledger by then stays, and `resume` goes on from there.
    """

    def __init__(
        self,
        session: Session,
        evaluate: Callable[[EventBus], Coroutine[Any, Any, PromptResponse[O]]],
    ) -> None:
        self.session = session
        self._evaluate = evaluate
        self._unread: UnreadEvents | None = None
        self._task: asyncio.Task[PromptResponse[O]] | None = None
        self.is_over = False
        """Whether nothing is left to iterate over: the response was yielded, or an error raised."""

    @property
    def response(self) -> PromptResponse[O]:
        """The response. Raises `UsageError` while the evaluation is not over."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            raise UsageError("the evaluation is not over; iterate the stream to its end")
        return task.result()

    def __aiter__(self) -> AsyncIterator[Event | PromptResponse[O]]:
        return self

    async def __anext__(self) -> Event | PromptResponse[O]:
        if self.is_over:
            raise StopAsyncIteration
        unread, task = self._begin()
        while (event := unread.take()) is None:
            if task.done():
                self.is_over = True
                return task.result()
            await unread.wait(task)
        return event

    def __await__(self) -> Generator[Any, Any, PromptResponse[O]]:
        return self._finish().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = self._task
        if task is None or task.done():
            return
        loop = task.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    async def aclose(self) -> None:
        """Cancel the evaluation, unless it is over, and wait until it has ended."""
        self.is_over = True
        task = self._task
        if task is None or task.done():
            return
        task.cancel()
        await asyncio.wait([task])

    def _begin(self) -> tuple[UnreadEvents, asyncio.Task[PromptResponse[O]]]:
        if self._task is None or self._unread is None:
            self._unread = UnreadEvents()
            # The task must not refer to the stream: one that nobody refers to is cancelled.
            work = _followed(self._evaluate, self._unread)
            self._task = asyncio.ensure_future(work)
            self._task.add_done_callback(_note_error)
        return self._unread, self._task

    async def _finish(self) -> PromptResponse[O]:
        async for _ in self:
            pass
        return self.response


async def _followed(
    evaluate: Callable[[EventBus], Coroutine[Any, Any, PromptResponse[O]]], unread: UnreadEvents
) -> PromptResponse[O]:
    bus = EventBus()
    bus.subscribe(Event, unread.add)
    _reader.set(unread)
    return await evaluate(bus)
