"""A chat in the terminal, prompt by prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from toolcrib.approval.console import Console, EndOfInput
from toolcrib.cli.exits import Exit
from toolcrib.cli.prompted import prompt_status
from toolcrib.cli.screen import Screen
from toolcrib.cli.streams import note

if TYPE_CHECKING:
    from toolcrib.cli.conversation import Conversation


async def chat(talk: Conversation, out: TextIO) -> None:
    """Ask what is typed until the input ends, or `/exit`. The answers go to `out`."""
    console = Console(sys.stdin, sys.stderr)
    note(f"session {talk.session_id}; /exit or Ctrl-D ends it", "dim")
    while True:
        try:
            text = await console.ask("> ")
        except EndOfInput:
            return
        if text == "/exit":
            return
        if text:
            await _answer(talk, text, out)


async def _answer(talk: Conversation, text: str, out: TextIO) -> None:
    result = await talk.answer(text, Screen(out))
    status = prompt_status(result)
    if status is Exit.WAITING:
        note(f"waits for approval: {', '.join(result['pending'])}", "yellow")
    elif status is not Exit.OK:
        note(f"no answer: {result['error'] or result['status']}", "red")
