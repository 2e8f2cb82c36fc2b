"""A chat in the terminal, in one session of a runtime in this process.

While a prompt is answered, the model's text goes to stdout and the tools' activity to stderr.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from toolcrib.approval.console import Console
from toolcrib.cli.output import Exit, show_note, stream
from toolcrib.cli.results import prompt_status
from toolcrib.cli.service import current_person
from toolcrib.errors import EndOfInput
from toolcrib.runtime.service import as_json
from toolcrib.terminal_text import STATUS_STYLES, end_word

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime


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
                word = _end_word(data)
                self._note(_invoked(data, word), None if word == "ok" else STATUS_STYLES[word])
            case "tool.progress":
                self._note(_progress(data), "dim")
            case "tool.output":
                self._note(f"{data['tool']}: {_cut(data['chunk'].rstrip())}", "dim")
            case "tool.withheld" | "tool.unavailable":
                self._note(f"{data['tool']['name']} is unavailable: {data['reason']}", "yellow")
            case "session.tools_changed":
                old = [*data["gone"], *(change["old"] for change in data["changed"])]
                names = ", ".join(tool["name"] for tool in old)
                self._note(f"tools gone or changed since the last time: {names}", "yellow")
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


def _end_word(data: Mapping[str, Any]) -> str:
    failure: Mapping[str, Any] = data.get("failure") or {}
    return end_word(is_success=data["success"], failure_kind=failure.get("kind"))


def _invoked(data: Mapping[str, Any], word: str) -> str:
    arguments = json.dumps(data.get("params"), ensure_ascii=False)
    duration = f"{data.get('duration_seconds', 0.0):.2f} s"
    end = "->" if word == "ok" else f"{word}:"
    return f"{data['name']} {_cut(arguments)} {end} {_cut(data['message'])} ({duration})"


def _progress(data: Mapping[str, Any]) -> str:
    total, message = data.get("total"), data.get("message")
    done = f"{data['current']:g}" + (f" of {total:g}" if total is not None else "")
    return f"{data['tool']}: {done}" + (f" {_cut(message)}" if message else "")


def _cut(text: str) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}..."


async def chat(session: ChatSession, out: TextIO) -> None:
    """Send each line that is typed as a prompt, until the input ends or `/exit`."""
    console = Console(sys.stdin, sys.stderr)
    show_note(f"session {session.session_id}; /exit or Ctrl-D ends it", "dim")
    while True:
        try:
            text = await console.ask("> ")
        except EndOfInput:
            return
        if text == "/exit":
            return
        if text:
            await _answer(session, text, out)


async def _answer(session: ChatSession, text: str, out: TextIO) -> None:
    result = await session.answer(text, EventScreen(out))
    status = prompt_status(result)
    if status is Exit.WAITING:
        show_note(f"waits for approval: {', '.join(result['pending'])}", "yellow")
    elif status is not Exit.OK:
        show_note(f"no answer: {result['error'] or result['status']}", "red")


@dataclass(frozen=True, slots=True)
class ChatSession:
    """A session in which prompts are answered, with the events shown meanwhile."""

    runtime: Runtime
    session_id: str
    who: Principal

    @classmethod
    async def open(cls, runtime: Runtime, session_id: str | None) -> ChatSession:
        """Open a session of the store, or a new one. Raises `Refused`."""
        who = current_person()
        operation = "session.create" if session_id is None else "session.resume"
        params = {} if session_id is None else {"session_id": session_id}
        session = await runtime.ask(operation, params, who)
        return cls(runtime, session.session_id, who)

    async def answer(self, text: str, screen: EventScreen) -> dict[str, Any]:
        """Have the model answer. Raises `Refused`."""
        facts = await self.runtime.ask("session.get", {"session_id": self.session_id}, self.who)
        reader = self.runtime.service.follow(self.session_id, facts.last_seq)
        watching = asyncio.ensure_future(screen.watch(reader))
        try:
            params = {"session_id": self.session_id, "text": text, "waits": False}
            result = as_json(await self.runtime.ask("prompt.send", params, self.who))
        finally:
            reader.close()
            await watching
        screen.finish(result["text"])
        return result
