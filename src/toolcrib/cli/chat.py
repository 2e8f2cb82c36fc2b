"""A chat in the terminal: lines are prompts, and words with a slash are commands."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TextIO

from toolcrib.approval.console import Console
from toolcrib.cli.event_screen import EventScreen, shown_call
from toolcrib.cli.output import show_note
from toolcrib.errors import EndOfInput, Refused
from toolcrib.terminal_text import terminal_width, wrap

if TYPE_CHECKING:
    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.chat import Chat, ChatTurn

HELP: Final = """\
/tools               the tools that the model may use
/approve [ID]        let the call that waits run
/deny [ID] [REASON]  refuse it; the model is told the reason
/resume              go on with a prompt that was cut off, or decided by somebody else
/help                these lines
/exit                end the chat; so does Ctrl-D
//TEXT               a prompt that begins with a slash"""
_HELP_INDENT: Final = " " * 21


class TerminalChat:
    """A chat at a terminal: the model's text goes to `out` (stdout), everything else to stderr."""

    def __init__(self, chat: Chat, out: TextIO | None) -> None:
        self._chat = chat
        self._out = out
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/tools": self._tools,
            "/approve": self._approve,
            "/deny": self._deny,
            "/resume": self._resume,
            "/help": self._help,
        }

    async def run(self) -> None:
        """Take lines until the input ends or `/exit`."""
        console = Console(sys.stdin, sys.stderr)
        show_note(
            f"session {self._chat.session_id}; /help for help, /exit or Ctrl-D ends it", "dim"
        )
        if await self._chat.is_unfinished():
            show_note("a prompt of this session is not finished; /resume continues it", "yellow")
        while True:
            try:
                line = await console.ask("> ")
            except EndOfInput:
                return
            if line == "/exit":
                return
            try:
                await self.take(line)
            except Refused as refused:
                show_note(str(refused), "red")

    async def take(self, line: str) -> None:
        """Send a prompt, or obey a command. No command goes to the model."""
        if line.startswith("//") or not line.startswith("/"):
            if line:
                await self._answer(self._chat.send(line.removeprefix("/"), waits=False))
            return
        word, _, rest = line.partition(" ")
        command = self._commands.get(word)
        if command is None:
            show_note(_unknown(word, [*self._commands, "/exit"]), "red")
        else:
            await command(rest.strip())

    async def _answer(self, turn: ChatTurn) -> None:
        result = await EventScreen(self._out).follow(turn, self._chat)
        match result.status:
            case "waiting":
                self._show_waiting(await self._chat.pending())
            case "failed":
                show_note(f"failed: {result.error or 'no reason is recorded'}", "red")
            case "cancelled":
                show_note("cancelled", "yellow")
            case "completed":
                pass

    def _show_waiting(self, pending: list[ApprovalFacts]) -> None:
        for facts in pending:
            call = shown_call(facts.tool, facts.arguments)
            show_note(
                f"waits for approval: {call}\n  {facts.approval_id}: {facts.reason}", "yellow"
            )
        name = " ID" if len(pending) > 1 else ""
        show_note(f"/approve{name} or /deny{name} [REASON] decides it", "dim")

    async def _help(self, _: str) -> None:
        for line in HELP.splitlines():
            for piece in wrap(line, terminal_width(sys.stderr), hanging=_HELP_INDENT):
                show_note(piece)

    async def _tools(self, _: str) -> None:
        listed = await self._chat.tools()
        for tool in listed.tools:
            first_line = tool.description.strip().partition("\n")[0]
            mark = " (needs approval)" if tool.requires_approval else ""
            show_note(f"{tool.name}{mark}: {first_line}")
        for name, reason in listed.unavailable.items():
            show_note(f"{name} is unavailable: {reason}", "yellow")
        if not listed.tools and not listed.unavailable:
            show_note("the model has no tools")

    async def _approve(self, rest: str) -> None:
        request, surplus = await self._chosen(rest)
        if request is None:
            return
        if surplus:
            show_note("/approve takes an ID and no more; nothing is decided", "red")
            return
        await self._chat.approve(request)
        await self._resume("")

    async def _deny(self, rest: str) -> None:
        request, reason = await self._chosen(rest)
        if request is None:
            return
        await self._chat.deny(request, reason or None)
        await self._resume("")

    async def _resume(self, _: str) -> None:
        await self._answer(self._chat.resume(waits=False))

    async def _chosen(self, rest: str) -> tuple[ApprovalFacts | None, str]:
        """The request that is meant, and what was written after its id."""
        pending = await self._chat.pending()
        name, _, after = rest.partition(" ")
        for facts in pending:
            if facts.approval_id == name:
                return facts, after.strip()
        if name.startswith("apr_"):
            show_note(f"no request {name} waits in this session", "red")
        elif len(pending) == 1:
            return pending[0], rest
        elif pending:
            show_note("several requests wait; name one:", "red")
            self._show_waiting(pending)
        else:
            show_note("nothing waits for approval")
        return None, ""


def _unknown(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    hint = f"did you mean {close[0]}?" if close else "/help lists the commands."
    return f"there is no command {word}; {hint} A prompt that begins with a slash begins with two."
