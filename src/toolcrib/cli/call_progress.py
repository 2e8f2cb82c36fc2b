"""What a running call reports, live on the terminal: its progress on one line, its output above."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Self, TextIO

from toolcrib.errors import Refused
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallStarted,
    Event,
    ToolInvoked,
    ToolOutput,
    ToolProgress,
)
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.terminal_text import cut, paint, showable, terminal_width, wrap

if TYPE_CHECKING:
    from toolcrib.cli.question_prompt import TerminalAnswers
    from toolcrib.runtime.messages import CallResult
    from toolcrib.runtime.session_events import SessionEvents
    from toolcrib.runtime.typed_operations import TypedOperations

_TICK_SECONDS: Final = 1.0
_LAST_EVENT_SECONDS: Final = 2.0
_BAR: Final = 20
_CLEAR: Final = "\r\x1b[K"
Clock = Callable[[], float]


class CallScreen:
    """Shows the calls of a session on a terminal: how long the newest one runs and how far it is,
    on a line that is written over, and every line of output above it.
    """

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._tool: str | None = None
        self._began = 0.0
        self._progress = ""
        self._partial = ""
        self._is_shown = False
        self._is_paused = False

    def show(self, event: Event) -> None:
        """Show one event, if it tells of a call that runs."""
        match event:
            case CallStarted():
                self._tool, self._began, self._progress = event.tool.name, self._clock(), ""
            case ToolProgress():
                self._progress = _progress_text(event)
                self.refresh()
            case ToolOutput():
                self._write_output(event.chunk)
            case ApprovalRequested() | QuestionAsked():
                # A person is asked on this very terminal.
                self._is_paused = True
                self._clear()
            case ApprovalDecided() | QuestionAnswered() | QuestionClosed():
                self._is_paused = False
            case ToolInvoked() if event.name == self._tool:
                self.finish()
            case _:
                pass

    def refresh(self) -> None:
        """Write the line about the running call again, with the time that it took until now."""
        if self._tool is None or self._is_paused:
            return
        seconds = f"{self._clock() - self._began:.0f} s"
        parts = [f"{self._tool} runs", *([self._progress] if self._progress else []), seconds]
        line = cut(showable(", ".join(parts)), terminal_width(self._stream) - 1)
        self._stream.write(_CLEAR + paint(line, "dim", self._stream))
        self._stream.flush()
        self._is_shown = True

    def finish(self) -> None:
        """Remove the line, and write what output did not end with one."""
        if self._partial:
            self._write_output("\n")
        self._clear()
        self._tool = None

    def _write_output(self, chunk: str) -> None:
        *lines, self._partial = (self._partial + chunk).split("\n")
        if not lines:
            return
        self._clear()
        width = terminal_width(self._stream)
        pieces = [piece for line in lines for piece in wrap(showable(line.rstrip("\r")), width)]
        self._stream.write("".join(f"{paint(piece, 'dim', self._stream)}\n" for piece in pieces))
        self.refresh()

    def _clear(self) -> None:
        if self._is_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._is_shown = False


def _progress_text(event: ToolProgress) -> str:
    """How far it is: a bar when the end is known."""
    done = f"{event.current:g}" + (f" of {event.total:g}" if event.total is not None else "")
    words = f"{done} {event.message}" if event.message else done
    if not event.total or event.total <= 0:
        return words
    full = max(0, min(_BAR, int(_BAR * event.current / event.total)))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {words}"


async def with_progress(
    operations: TypedOperations, session_id: str, call: Callable[[], Awaitable[CallResult]]
) -> CallResult:
    """Await a call. Meanwhile show what the calls of its session report, and ask what they ask."""
    from toolcrib.cli.question_prompt import TerminalAnswers
    from toolcrib.runtime.chat import Chat

    screen = CallScreen(sys.stderr)
    facts = await operations.get_session(session_id)
    answers = TerminalAnswers(Chat(operations, session_id))
    events = _FollowedEvents(operations.events(session_id, facts.last_seq), screen, answers)
    async with events, _ticking(screen):
        try:
            result = await call()
            if result.status != "waiting":
                await events.reach_end_of(result.call_id)
            return result
        finally:
            screen.finish()


class _FollowedEvents:
    """Shows the events of a session while the block runs."""

    def __init__(self, events: SessionEvents, screen: CallScreen, answers: TerminalAnswers) -> None:
        self._events = events
        self._answers = answers
        self._screen = screen
        self._ended: set[str] = set()
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        # From before the call, so that its first event is not missed.
        with suppress(Refused):
            await self._events.__aenter__()
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None, "it was entered"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._answers.close()
        await self._events.aclose()

    async def _follow(self) -> None:
        # A server that does not let its events be read still makes the call.
        with suppress(Refused):
            async for event in self._events:
                self._screen.show(event)
                self._answers.take(event)
                if isinstance(event, ToolInvoked):
                    async with self._news:
                        self._ended.add(event.call_id)
                        self._news.notify_all()

    async def reach_end_of(self, call_id: str) -> None:
        """Wait for the last event of a call that has ended: over a connection of their own, events
        may come later than the result.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_EVENT_SECONDS), self._news:
                await self._news.wait_for(lambda: call_id in self._ended)


@asynccontextmanager
async def _ticking(screen: CallScreen) -> AsyncGenerator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            screen.refresh()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
