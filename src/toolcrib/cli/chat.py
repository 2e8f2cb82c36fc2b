"""A chat in the terminal, in one session of a runtime in this process."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from toolcrib.approval.console import Console
from toolcrib.cli.output import Exit, show_note
from toolcrib.cli.results import prompt_status
from toolcrib.cli.screen import EventScreen
from toolcrib.cli.service import current_person
from toolcrib.errors import EndOfInput
from toolcrib.runtime.service import as_json

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime


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
