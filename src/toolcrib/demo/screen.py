"""The output of the demo: lines that break at words, one line per call, a timeline of bars."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

from toolcrib.approval import Answer
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, CallStarted, ToolInvoked
from toolcrib.ledger.prompt_events import HostedToolProgress
from toolcrib.terminal_text import (
    STATUS_STYLES,
    columns,
    command_lines,
    cut,
    cut_words,
    end_word,
    padded,
    showable,
    wrap,
)

if TYPE_CHECKING:
    from toolcrib.session.session import Session

MAX_CHARS: Final = 100
"""How much of a result is shown where no terminal has an edge."""
_INDENT: Final = "   "
_NAME: Final = 17
_MARK: Final = 8
_WIDEST_BAR: Final = 40
_NARROWEST_BAR: Final = 10
_PLACE_NEEDS: Final = 70
"""A narrower terminal has no room for the column that says where a call ran."""
_LINK: Final = re.compile(r"\[([^]]+)\]\(https?://[^)]+\)")
_NOT_RUN: Final = ("denied", "answered", "expired", "stopped")
_RUNS: Final = "\N{FULL BLOCK}"
_WAITS: Final = "\N{LIGHT SHADE}"


@dataclass(frozen=True, slots=True)
class Span:
    """When a call was asked for, began to run and ended, in seconds since the start of the demo."""

    asked: float
    began: float
    ended: float
    did_run: bool = True


class DemoScreen:
    """Prints headings and one line per call; on a terminal also the current activity."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._status: Status | None = None
        self._step = 0
        self._provider_runs: dict[str, tuple[float, float]] = {}
        """By item id: the first and the last event of a hosted call."""
        self._answered: set[str] = set()
        """The calls in whose place a person answered."""

    @property
    def _width(self) -> int | None:
        """The columns of the terminal; None when there is no edge to keep away from."""
        return self._console.width if self._console.is_terminal else None

    def step(self, title: str) -> None:
        """Print the heading of the next step."""
        self._step += 1
        self.say("")
        self.say(f"{self._step}. {title}", "bold", hanging=_INDENT)

    def say(self, text: str, style: str = "", *, hanging: str = "") -> None:
        """Print one line, without control characters; at a terminal it breaks at words."""
        line = showable(text)
        lines = [line] if self._width is None else wrap(line, self._width, hanging=hanging)
        self._print(lines, style)

    def fact(self, name: str, value: str, style: str = "", *, room: int = 15) -> None:
        """Print a name, and what it stands for beside it."""
        self.say(f"{_INDENT}{name:{room}} {value}", style, hanging=" " * (room + 1))

    def path(self, text: str, path: object) -> None:
        """Print a sentence that ends with a path; the path has its own line where it needs one."""
        self.say(text if self._width is not None else f"{text} {path}")
        if self._width is not None:
            self._print([f"{_INDENT}{showable(str(path))}"])

    def command(self, command: str) -> None:
        """Print a command that can be copied."""
        line = showable(command)
        self._print(command_lines(line, self._width or len(line) + 10, indent=_INDENT))

    def _print(self, lines: Sequence[str], style: str = "") -> None:
        for line in lines:
            self._console.print(Text(line, style=style), soft_wrap=True)

    @contextmanager
    def watching(self, session: Session) -> Generator[None]:
        """Show the calls of a session as they happen."""
        session.bus.subscribe(CallStarted, lambda event: self._now(f"{event.tool.name} runs"))
        session.bus.subscribe(HostedToolProgress, self._hosted)
        session.bus.subscribe(ApprovalRequested, self._asked)
        session.bus.subscribe(ApprovalDecided, self._decided)
        session.bus.subscribe(ToolInvoked, self._invoked)
        if not self._console.is_terminal:
            yield
            return
        self._status = self._console.status("asking the model")
        with self._status:
            yield
        self._status = None

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Stop the status line while a person decides."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()

    def end_of(self, event: ToolInvoked) -> str:
        """How a call ended, in a word."""
        if event.success and event.call_id in self._answered:
            return "answered"
        kind = event.failure.kind if event.failure else None
        return end_word(is_success=event.success, failure_kind=kind)

    def timeline(self, calls: list[ToolInvoked], began: float, provider: str) -> None:
        """Print how each call ended and when it ran; waiting for approval looks different."""
        width = self._width or MAX_CHARS
        spans = [self._span(event, began) for event in calls]
        header = ("call", "where", "end", "ran", "waited")
        rows: list[tuple[str, ...]] = [header]
        rows += [self._row(each, span, provider) for each, span in zip(calls, spans, strict=True)]
        if width < _PLACE_NEEDS:
            rows = [(name, *rest) for name, _, *rest in rows]
        widths = columns(rows)
        room = min(_WIDEST_BAR, max(_NARROWEST_BAR, width - sum(widths) - 2 * len(widths)))
        bars = ["", *timeline_bars(spans, room)]
        for row, bar in zip(rows, bars, strict=True):
            cells = "  ".join(padded(cell, at) for cell, at in zip(row, widths, strict=True))
            self._print([f"{cells}  {bar}".rstrip()], "bold" if row is rows[0] else "")
        self._print([f"{_RUNS} runs   {_WAITS} waits for approval"], "dim")

    def _row(self, event: ToolInvoked, span: Span, provider: str) -> tuple[str, ...]:
        where = "here" if event.origin == "local" else provider
        ran, waited = f"{span.ended - span.began:.2f} s", f"{event.waited_seconds:.2f} s"
        return cut(showable(event.name), _NAME), where, self.end_of(event), ran, waited

    def _span(self, event: ToolInvoked, began: float) -> Span:
        """When a call waited and ran; a hosted call, by the streamed events."""
        if run := self._provider_runs.get(event.call_id):
            return Span(run[0] - began, run[0] - began, run[1] - began)
        ended = event.at - began
        start = ended - event.duration_seconds
        did_run = self.end_of(event) not in _NOT_RUN
        return Span(start - event.waited_seconds, start, ended, did_run)

    def _now(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(cut(showable(text), max(10, self._console.width - 4))))

    def _hosted(self, event: HostedToolProgress) -> None:
        began, _ = self._provider_runs.get(event.call_id, (event.at, event.at))
        self._provider_runs[event.call_id] = (began, event.at)
        self._now(f"{event.tool}: {event.status.replace('_', ' ')}")

    def _asked(self, event: ApprovalRequested) -> None:
        self._call(event.request.tool.name, "waiting", "it needs approval")

    def _decided(self, event: ApprovalDecided) -> None:
        if isinstance(event.decided.decision, Answer):
            self._answered.add(event.call_id)

    def _invoked(self, event: ToolInvoked) -> None:
        end = self.end_of(event)
        text = f"it did not run: {event.message}" if end in _NOT_RUN[:2] else event.message
        self._call(event.name, end, text)

    def _call(self, name: str, word: str, text: str) -> None:
        """One line about a call, cut at the edge of the terminal."""
        line = f"{_INDENT}{showable(name):{_NAME}} {word:{_MARK}}"
        room = MAX_CHARS if self._width is None else max(20, self._width - len(line) - 1)
        text = cut_words(showable(" ".join(text.split())), room)
        self._print([f"{line} {text}"], "" if word == "ok" else STATUS_STYLES[word])


def timeline_bars(spans: Sequence[Span], room: int) -> list[str]:
    """A bar of at most `room` columns for each call: where it waited, and where it ran."""
    whole = max([span.ended for span in spans] + [0.001])

    def column(seconds: float) -> int:
        return min(room - 1, max(0, int(room * seconds / whole)))

    bars: list[str] = []
    for span in spans:
        asked, began, ended = column(span.asked), column(span.began), column(span.ended)
        waits = began - asked if span.did_run else max(1, ended - asked)
        runs = max(1, ended - began) if span.did_run else 0
        bars.append(" " * asked + _WAITS * waits + _RUNS * runs)
    return bars


def seconds_since(began: float) -> str:
    """How long it took."""
    return f"{time.time() - began:.1f} s"


def shown_value(value: Any) -> str:
    """A value on one line: text without the addresses of its links, anything else as JSON."""
    if isinstance(value, str):
        return _LINK.sub(r"\1", " ".join(value.split()))
    return json.dumps(value, ensure_ascii=False, default=str)
