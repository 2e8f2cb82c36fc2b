"""The output of the demo."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from toolcrib.ledger.events import ApprovalRequested, CallStarted, ToolInvoked
from toolcrib.ledger.prompt_events import HostedToolProgress
from toolcrib.terminal_text import showable

if TYPE_CHECKING:
    from toolcrib.session.session import Session

MAX_CHARS: Final = 100
_BAR: Final = 30


class DemoScreen:
    """Prints headings and one line per call; on a terminal also the current activity."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._step = 0
        self._provider_runs: dict[str, tuple[float, float]] = {}
        """By item id: the first and the last event of a hosted call."""

    def step(self, title: str) -> None:
        """Print the heading of the next step."""
        self._step += 1
        self.say("")
        self.say(f"{self._step}. {title}", "bold")

    def say(self, text: str, style: str = "") -> None:
        """Print one line, without control characters."""
        self._console.print(Text(showable(text), style=style))

    @contextmanager
    def watching(self, session: Session) -> Generator[None]:
        """Show the calls of a session as they happen."""
        session.bus.subscribe(CallStarted, lambda event: self._now(f"{event.tool.name} runs"))
        session.bus.subscribe(HostedToolProgress, self._hosted)
        session.bus.subscribe(ApprovalRequested, self._asked)
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

    def timeline(self, calls: list[ToolInvoked], began: float, provider: str) -> None:
        """Print when each call ran and for how long, with the wait for approval apart."""
        spans = [self._span(event) for event in calls]
        whole = max([end - began for _, end in spans] or [1.0])
        table = Table(box=None, pad_edge=False, show_edge=False)
        for name in ("call", "where", "ran", "waited", ""):
            table.add_column(name)
        for event, (start, end) in zip(calls, spans, strict=True):
            where = "this process" if event.origin == "local" else provider
            bar = _bar(start - began, end - began, whole)
            ran, waited = f"{end - start:.2f} s", f"{event.waited_seconds:.2f} s"
            table.add_row(Text(showable(event.name)), where, ran, waited, bar)
        self._console.print(table)

    def _span(self, event: ToolInvoked) -> tuple[float, float]:
        """Start and end of a call; of a hosted call, by the streamed events."""
        span = self._provider_runs.get(event.call_id)
        return span or (event.at - event.duration_seconds, event.at)

    def _now(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(showable(text)))

    def _hosted(self, event: HostedToolProgress) -> None:
        began, _ = self._provider_runs.get(event.item_id, (event.at, event.at))
        self._provider_runs[event.item_id] = (began, event.at)
        self._now(f"{event.item_type.removesuffix('_call')}: {event.what}")

    def _asked(self, event: ApprovalRequested) -> None:
        self.say(f"   {event.request.tool.name} needs approval", "yellow")

    def _invoked(self, event: ToolInvoked) -> None:
        mark = "ok" if event.success else "failed"
        text = " ".join(event.message.split())[:MAX_CHARS]
        self.say(f"   {event.name:17} {mark:7} {text}", "" if event.success else "red")


def _bar(start: float, end: float, whole: float) -> str:
    before = int(_BAR * max(0.0, start) / whole)
    length = max(1, round(_BAR * (end - start) / whole))
    return " " * before + "\N{FULL BLOCK}" * min(length, _BAR + 1 - before)


def seconds_since(began: float) -> str:
    """How long it took."""
    return f"{time.time() - began:.1f} s"


def shown_value(value: Any) -> str:
    """A value on one line."""
    return " ".join(str(value).split())
