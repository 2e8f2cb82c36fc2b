"""A prompt while it is answered: the model's text on stdout, the tools' activity on stderr."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO

from toolcrib.cli.output import show_note, stream

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import Envelope

MAX_CHARS: Final = 200
"""How much of a call's arguments or result is shown."""


class EventScreen:
    """Shows the events of a session. `is_silent` leaves out the model's text."""

    def __init__(self, out: TextIO | None = None, *, is_silent: bool = False) -> None:
        self._out = out
        self._is_silent = is_silent
        self._written = ""
        self._step: object = None

    async def watch(self, events: AsyncIterable[Envelope]) -> None:
        """Show all events until the stream ends."""
        async for event in events:
            self.show(event)

    def show(self, event: Envelope) -> None:
        """Show one event, if it is of interest to a person."""
        data = event.data
        match event.kind:
            case "model.text_delta":
                self._write(data)
            case "tool.invoked":
                self._note(_invoked(data), None if data["success"] else "red")
            case "tool.progress":
                self._note(_progress(data), "dim")
            case "tool.output":
                self._note(f"{data['tool']}: {_cut(data['chunk'].rstrip())}", "dim")
            case "tool.withheld" | "tool.unavailable":
                self._note(f"{data['tool']['name']} is unavailable: {data['reason']}", "yellow")
            case _:
                pass

    def finish(self, text: str) -> None:
        """End the answer, and write it now if it was not streamed."""
        if self._is_silent:
            return
        if self._written.strip() != text.strip():
            self._end_line()
            stream(text, self._out)
            self._written = text
        self._end_line()

    def _write(self, data: Mapping[str, Any]) -> None:
        if self._is_silent:
            return
        step = (data["turn"], data["step"])
        if step != self._step:
            # Text before a tool call is not part of the answer.
            self._end_line()
            self._step, self._written = step, ""
        stream(data["text"], self._out)
        self._written += data["text"]

    def _note(self, text: str, style: str | None) -> None:
        self._end_line()
        show_note(text, style)

    def _end_line(self) -> None:
        if self._written and not self._written.endswith("\n"):
            stream("\n", self._out)
            self._written += "\n"


def _invoked(data: Mapping[str, Any]) -> str:
    arguments = json.dumps(data.get("params"), ensure_ascii=False)
    duration = f"{data.get('duration_seconds', 0.0):.2f} s"
    return f"{data['name']} {_cut(arguments)} -> {_cut(data['message'])} ({duration})"


def _progress(data: Mapping[str, Any]) -> str:
    total, message = data.get("total"), data.get("message")
    done = f"{data['current']:g}" + (f" of {total:g}" if total is not None else "")
    return f"{data['tool']}: {done}" + (f" {_cut(message)}" if message else "")


def _cut(text: str) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}..."
