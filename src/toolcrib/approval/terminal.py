"""The approver at a terminal: one request at a time. Enter alone never approves."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TextIO, TypeVar, cast

from toolcrib.approval.approvers import Reply
from toolcrib.approval.console import Console
from toolcrib.approval.decision import (
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Authority,
    Decision,
    Deny,
    GrantScope,
)
from toolcrib.approval.duration import read_duration
from toolcrib.approval.edit import check_edit
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.panel import draw_arguments, draw_panel, shown_json
from toolcrib.approval.pattern import Equals, Patterns, first_mismatch
from toolcrib.approval.pattern_words import read_typed_patterns
from toolcrib.errors import EndOfInput, InvalidDecision, UsageError
from toolcrib.terminal_text import showable, terminal_width, wrap, wrap_items

T = TypeVar("T")

KEYS: Final = (
    "a approve",
    "e edit",
    "d deny",
    "s session",
    "p principal",
    "w everyone",
    "r answer instead",
    "? help",
)
_HELP = """\
a  approve: run the call with exactly these arguments
e  edit: change the arguments in $EDITOR, then approve them
d  deny: do not run it, and tell the model why
s  session: approve, and do not ask again for such calls in this session
p  principal: approve, and do not ask again for such calls of the asker, in any session
w  everyone: approve, and do not ask again for such calls, whoever makes them
r  answer instead: do not run it; the JSON you type stands for its result
Enter alone does nothing. The end of input (Ctrl-D) leaves the question open."""
_WHY = "Why? The model reads this. Enter gives no reason"
_ANSWER = "Answer as JSON"
_WHICH = """\
Which calls of this tool? x exactly these arguments (hidden ones never match), t any arguments, \
p arguments that match patterns; Enter goes back"""
_PATTERNS = """\
Patterns, such as path=src/** or kilos<=480, with spaces between them, or as JSON; Enter goes \
back"""
_EDITED = "Run with these arguments? a approve; anything else goes back"
_LIMIT = """\
For how long, or how often? 30m, 8h, 7d, or 5x for five calls; unlimited means for ever; Enter \
goes back"""
_KEPT = "Your text is kept: e goes on with it."
_LOST = "There is no store, so this grant ends with this program; --store FILE would keep it."
_USES = re.compile(r"([0-9]{1,9})x")
_OWNER = Authority(is_admin=True, may_approve_own=True)
"""Whoever sits at the terminal of the program may do what the program may."""


class ApprovalDialog:
    """The dialogue about one request, until there is a decision."""

    def __init__(
        self, console: Console, request: ApprovalRequest, actor: Actor, *, is_durable: bool
    ) -> None:
        self._console = console
        self._request = request
        self._actor = actor
        self._is_durable = is_durable
        self._draft: str | None = None
        """What was typed in the editor last, valid or not."""

    async def settle(self) -> Reply:
        """Ask until there is a clear reply. Raises `EndOfInput` when the person leaves."""
        emphasis = partial(self._console.paint, style="bold yellow")
        self._console.write(draw_panel(self._request, self._console.width, emphasis))
        while True:
            key = await self._ask("\n".join(self._key_lines()))
            try:
                reply = await self._act_on(key)
            except UsageError as error:
                self._complain(error)
                continue
            if reply is not None:
                return reply

    def _key_lines(self) -> list[str]:
        """The keys, broken between them; each key stands out where there is colour."""
        lines = wrap_items(KEYS, self._console.width)
        bold = self._console.paint("\\1", "bold")
        return [re.sub(r"(?<!\S)(\S)(?= )", bold, line) for line in lines]

    async def _ask(self, question: str) -> str:
        return await self._console.ask(f"{question}\n> ")

    async def _ask_in_words(self, question: str) -> str:
        lines = wrap(question, self._console.width)
        return await self._ask("\n".join(lines))

    def _complain(self, error: UsageError) -> None:
        self._console.say(f"Not done: {showable(str(error))}.", "red")

    async def _act_on(self, key: str) -> Reply | None:
        match key:
            case "a":
                return self._reply(Approve())
            case "e":
                return await self._edit()
            case "d":
                return self._reply(await self._deny())
            case "s":
                return await self._grant("session")
            case "p":
                return await self._grant("principal")
            case "w":
                return await self._grant("everyone")
            case "r":
                return self._reply(Answer(_read_json(await self._ask_in_words(_ANSWER))))
            case "?":
                self._console.say(_HELP, hanging="   ")
            case "":
                self._console.say("Enter alone decides nothing.")
            case _:
                self._console.say(f"{showable(key)} is none of the keys.")
        return None

    def _reply(self, decision: Decision, grant: NewGrant | None = None) -> Reply:
        return Reply(decision, self._actor, grant, _OWNER)

    async def _deny(self) -> Deny:
        reason = await self._ask_in_words(_WHY)
        return Deny(reason) if reason else Deny()

    async def _edit(self) -> Reply | None:
        original = shown_json(self._request.arguments)
        text = await self._console.edit(self._draft or original)
        # Kept until it is approved: whoever mistyped one character mends that character.
        self._draft = text
        try:
            arguments = self._edited_arguments(text)
        except InvalidDecision as error:
            self._complain(error)
            self._console.say(_KEPT)
            return None
        self._console.write(draw_arguments(arguments, self._console.width))
        is_sure = await self._ask_in_words(_EDITED) == "a"
        return self._reply(Approve(arguments)) if is_sure else None

    def _edited_arguments(self, text: str) -> dict[str, Any]:
        edited = _read_json(text)
        if not isinstance(edited, dict):
            raise InvalidDecision("the arguments are not a JSON object; start with {")
        arguments = cast("dict[str, Any]", edited)
        if arguments == self._request.arguments:
            raise InvalidDecision("nothing was changed; type a to approve it as it is")
        if self._request.parameters:
            check_edit(self._request, arguments)
        return arguments

    async def _grant(self, scope: GrantScope) -> Reply | None:
        if scope == "principal" and self._request.caller.principal is None:
            raise InvalidDecision("nobody is named as the asker; type s for the session")
        patterns = await self._patterns()
        if patterns is None:
            return None
        if scope == "session":
            return self._reply(Approve(), NewGrant(scope, patterns))
        if not self._is_durable:
            self._console.say(_LOST, "yellow")
        grant = await self._until_valid(_LIMIT, partial(_limited, scope, patterns))
        return None if grant is None else self._reply(Approve(), grant)

    async def _patterns(self) -> Patterns | None:
        while True:
            match await self._ask_in_words(_WHICH):
                case "x":
                    return {"": Equals(self._request.arguments)}
                case "t":
                    return {}
                case "p":
                    return await self._until_valid(_PATTERNS, self._covering)
                case "":
                    return None
                case key:
                    self._console.say(f"{showable(key)} is none of x, t and p.")

    async def _until_valid(self, question: str, read: Callable[[str], T]) -> T | None:
        """Ask until what is typed can be read; None for Enter alone."""
        while typed := await self._ask_in_words(question):
            try:
                return read(typed)
            except UsageError as error:
                self._complain(error)
        return None

    def _covering(self, typed: str) -> Patterns:
        patterns = read_typed_patterns(typed, self._request.arguments)
        missed = first_mismatch(patterns, self._request.arguments, "narrow")
        if missed is not None:
            raise InvalidDecision(f"the pattern at {missed} does not match this very call")
        return patterns


def _limited(scope: GrantScope, patterns: Patterns, written: str) -> NewGrant:
    """The grant with the limit that a person typed."""
    if written == "unlimited":
        return NewGrant(scope, patterns, unlimited=True)
    if uses := _USES.fullmatch(written):
        return NewGrant(scope, patterns, uses=int(uses[1]))
    return NewGrant(scope, patterns, expires_in_seconds=read_duration(written))


def _read_json(text: str) -> object:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidDecision(f"this is not JSON ({error})") from None


class TerminalApprover:
    """Shows each request on a terminal. Without a terminal it gives no answer. With `is_durable`
    false it says that grants are lost when the program ends.
    """

    def __init__(
        self,
        input: TextIO | None = None,
        output: TextIO | None = None,
        user: str | None = None,
        *,
        is_durable: bool = True,
    ) -> None:
        import anyio

        self._console = Console(input or sys.stdin, output or sys.stderr)
        self._actor = Actor("person", user or getpass.getuser())
        self._is_durable = is_durable
        self._one_at_a_time = anyio.Lock()

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        """Ask the person. Returns `None` when nobody is there; the request then stays open."""
        import anyio

        async with self._one_at_a_time:
            if not self._console.is_terminal:
                return _leave_open("this is not a terminal, so nobody can be asked here")
            try:
                dialog = ApprovalDialog(
                    self._console, request, self._actor, is_durable=self._is_durable
                )
                return await dialog.settle()
            except EndOfInput:
                # The cursor is still behind the prompt.
                return _leave_open("the input ended without an answer", before="\n")
            except anyio.get_cancelled_exc_class():
                with suppress(EndOfInput):
                    self._console.say(
                        "\nThis question is withdrawn; no answer is needed.", "yellow"
                    )
                raise


def _leave_open(why: str, *, before: str = "") -> None:
    text = f"The call has not run: {why}. The request stays open."
    lines = wrap(text, terminal_width(sys.stderr)) if sys.stderr.isatty() else [text]
    print(before + "\n".join(lines), file=sys.stderr, flush=True)
