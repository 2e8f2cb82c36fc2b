"""Questions of running calls at the terminal: each is shown, and the typed line is its answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.approval.console import Console
from toolcrib.cli.approver import is_terminal
from toolcrib.cli.arguments import read_value
from toolcrib.errors import EndOfInput, QuestionDeclined, Refused
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.terminal_text import showable

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.runtime.chat import Chat

DECLINE: Final = "/decline"
_HINT: Final = f"type an answer, or {DECLINE}"


class TerminalAnswers:
    """Asks the questions of a chat's session at the terminal, one at a time. Without a terminal
    they are declined at once: nobody is here.
    """

    def __init__(self, chat: Chat, console: Console | None = None) -> None:
        self._chat = chat
        self._console = console
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._terminal = asyncio.Lock()

    def take(self, event: Event) -> None:
        """Ask a question that comes, and stop to ask one that is closed."""
        match event:
            case QuestionAsked():
                task = asyncio.ensure_future(self._answer(event))
                self._asking[event.question.question_id] = task
            case (
                QuestionAnswered(question_id=question_id) | QuestionClosed(question_id=question_id)
            ):
                task = self._asking.pop(question_id, None)
                if task is not None and not task.done():
                    task.cancel()
            case _:
                pass

    async def close(self) -> None:
        """Stop to ask."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, event: QuestionAsked) -> None:
        if self._console is None and not is_terminal():
            await self._decline(event, "nobody is at a terminal")
            return None
        console = self._console or Console(sys.stdin, sys.stderr)
        async with self._terminal:
            fault: str | None = None
            while True:
                try:
                    value = await typed_answer(console, event, fault)
                except QuestionDeclined:
                    return await self._decline(event, None)
                except EndOfInput:
                    return await self._decline(event, "the terminal was closed")
                try:
                    # Not cut short by the event of this very answer.
                    await asyncio.shield(self._chat.answer(event, value))
                    return None
                except Refused as refused:
                    if refused.kind != "invalid":
                        console.say(str(refused), "red")
                        return None
                    fault = str(refused)

    async def _decline(self, event: QuestionAsked, reason: str | None) -> None:
        with suppress(Refused):
            await asyncio.shield(self._chat.decline(event, reason))


async def typed_answer(console: Console, event: QuestionAsked, fault: str | None) -> Any:
    """Show a question, and return the JSON value that was typed. Raises `QuestionDeclined`, and
    `EndOfInput`.
    """
    question = event.question
    title = f"{showable(question.tool.name)} asks: {showable(question.text)}"
    console.say(title, "bold yellow")
    if fault is not None:
        console.say(showable(fault), "red")
    return await typed_value(console, question.schema, is_secret=question.is_secret)


async def typed_value(console: Console, schema: Mapping[str, Any], *, is_secret: bool) -> Any:
    """A value of a schema, typed at the terminal. Raises `QuestionDeclined`, and `EndOfInput`."""
    from toolcrib.transports.question_form import choices_of, fields_of

    if is_secret:
        return await _secret()
    choices = choices_of(schema)
    if choices is not None:
        return await _choice(console, choices)
    fields = fields_of(schema)
    if fields is None:
        return await _line(console, "answer", schema)
    required = cast("list[str]", schema.get("required", []))
    value: dict[str, Any] = {}
    for name, field in fields.items():
        typed = await _field(console, name, field, is_required=name in required)
        if typed is not None:
            value[name] = typed
    return value


async def _choice(console: Console, choices: Mapping[str, Any]) -> Any:
    names = list(choices)
    for number, name in enumerate(names, 1):
        console.say(f"  {number}  {name}")
    while True:
        typed = await _typed(console, "answer")
        if typed.isdecimal() and 0 < int(typed) <= len(names):
            return choices[names[int(typed) - 1]]
        matches = [name for name in names if name.casefold() == typed.casefold()]
        if len(matches) == 1:
            return choices[matches[0]]
        console.say(f"{showable(typed)!r} is none of them; type a number, or {DECLINE}", "red")


async def _field(
    console: Console, name: str, schema: Mapping[str, Any], *, is_required: bool
) -> Any:
    if not is_required:
        default = f", Enter for {schema['default']!r}" if "default" in schema else ", or Enter"
        typed = await console.ask(f"{showable(name)}{default}: ")
        if not typed:
            return None
        _check(typed)
        return read_value(typed, dict(schema))
    return await _line(console, name, schema)


async def _line(console: Console, label: str, schema: Mapping[str, Any]) -> Any:
    return read_value(await _typed(console, label), dict(schema))


async def _typed(console: Console, label: str) -> str:
    while True:
        typed = await console.ask(f"{showable(label)}: ")
        _check(typed)
        if typed:
            return typed
        console.say(_HINT, "dim")


async def _secret() -> str:
    import getpass

    import anyio.to_thread

    try:
        typed = await anyio.to_thread.run_sync(
            getpass.getpass, "answer (not shown): ", abandon_on_cancel=True
        )
    except EOFError:
        raise EndOfInput from None
    _check(typed)
    return typed


def _check(typed: str) -> None:
    if typed == DECLINE:
        raise QuestionDeclined("the person typed that there is no answer")
