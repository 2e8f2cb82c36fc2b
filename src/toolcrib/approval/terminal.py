"""The approver at a terminal: one request at a time. Enter alone never approves."""

from __future__ import annotations

import getpass
import re
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

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
from toolcrib.approval.panel import draw_panel, shown_json
from toolcrib.approval.pattern import Equals, Patterns, first_mismatch
from toolcrib.approval.pattern_json import read_patterns
from toolcrib.errors import EndOfInput, InvalidDecision, UsageError
from toolcrib.terminal_text import showable

_KEYS = """\
a approve, e edit, d deny, s session, p principal, w everyone, r answer instead, ? help
> """
_HELP = """\
a  approve: run the call with exactly these arguments
e  edit: change the arguments in $EDITOR, then approve them
d  deny: do not run it, and tell the model why
s  session: approve, and do not ask again for such calls in this session
p  principal: approve, and do not ask again for such calls of the asker, in any session
w  everyone: approve, and do not ask again for such calls, whoever makes them
r  answer instead: do not run it; the JSON you type stands for its result
Enter alone does nothing. The end of input (Ctrl-D) leaves the question open."""
_WHICH = """\
Which calls of this tool? x exactly these arguments (hidden ones never match), t any arguments,
p arguments that match patterns; Enter goes back
> """
_PATTERNS = 'Patterns as JSON, such as {"/path": {"glob": "src/**"}}\n> '
_EDITED = "Run with these arguments? a approve; anything else goes back\n> "
_LIMIT = """\
For how long, or how often? 30m, 8h, 7d, or 5x for five calls; unlimited means for ever;
Enter goes back
> """
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

    async def settle(self) -> Reply:
        """Ask until there is a clear reply. Raises `EndOfInput` when the person leaves."""
        self._console.write(draw_panel(self._request, self._console.width))
        while True:
            key = await self._console.ask(_KEYS)
            try:
                reply = await self._act_on(key)
            except UsageError as error:
                self._console.write(f"Not done: {showable(str(error))}.")
                continue
            if reply is not None:
                return reply

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
                return self._reply(
                    Answer(_read_json(await self._console.ask("Answer as JSON\n> ")))
                )
            case "?":
                self._console.write(_HELP)
            case "":
                self._console.write("Enter alone decides nothing.")
            case _:
                self._console.write(f"{showable(key)} is none of the keys.")
        return None

    def _reply(self, decision: Decision, grant: NewGrant | None = None) -> Reply:
        return Reply(decision, self._actor, grant, _OWNER)

    async def _deny(self) -> Deny:
        reason = await self._console.ask("Why? The model reads this. Enter gives no reason\n> ")
        return Deny(reason) if reason else Deny()

    async def _edit(self) -> Reply | None:
        edited = _read_json(await self._console.edit(shown_json(self._request.arguments)))
        if not isinstance(edited, dict):
            raise InvalidDecision("the arguments are not a JSON object; start with {")
        arguments = cast("dict[str, Any]", edited)
        if arguments == self._request.arguments:
            raise InvalidDecision("nothing was changed; type a to approve it as it is")
        if self._request.parameters:
            check_edit(self._request, arguments)
        self._console.write(shown_json(arguments))
        is_sure = await self._console.ask(_EDITED) == "a"
        return self._reply(Approve(arguments)) if is_sure else None

    async def _grant(self, scope: GrantScope) -> Reply | None:
        if scope == "principal" and self._request.caller.principal is None:
            raise InvalidDecision("nobody is named as the asker; type s for the session")
        patterns = await self._patterns()
        if patterns is None:
            return None
        if scope == "session":
            return self._reply(Approve(), NewGrant(scope, patterns))
        if not self._is_durable:
            self._console.write(_LOST)
        written = await self._console.ask(_LIMIT)
        return self._reply(Approve(), _limited(scope, patterns, written)) if written else None

    async def _patterns(self) -> Patterns | None:
        match await self._console.ask(_WHICH):
            case "x":
                return {"": Equals(self._request.arguments)}
            case "t":
                return {}
            case "p":
                return self._covering(read_patterns(_read_json(await self._console.ask(_PATTERNS))))
            case _:
                return None

    def _covering(self, patterns: Patterns) -> Patterns:
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
                return _leave_open("the input ended without an answer")
            except anyio.get_cancelled_exc_class():
                with suppress(EndOfInput):
                    self._console.write("\nThis question is withdrawn; no answer is needed.")
                raise


def _leave_open(why: str) -> None:
    print(f"The call has not run: {why}. The request stays open.", file=sys.stderr, flush=True)
