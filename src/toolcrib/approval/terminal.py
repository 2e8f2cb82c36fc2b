"""Asks the person at the terminal, one question at a time."""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from typing import TextIO

from toolcrib.approval.approvers import Reply
from toolcrib.approval.console import Console, EndOfInput
from toolcrib.approval.decision import Actor
from toolcrib.approval.question import Question
from toolcrib.approval.request import ApprovalRequest


class TerminalApprover:
    """Shows each request on a terminal. Where there is no terminal it answers nothing."""

    def __init__(
        self,
        input: TextIO | None = None,
        output: TextIO | None = None,
        user: str | None = None,
    ) -> None:
        import anyio

        self._console = Console(input or sys.stdin, output or sys.stderr)
        self._actor = Actor("person", user or getpass.getuser())
        self._one_at_a_time = anyio.Lock()

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        """Ask the person; None when there is nobody, and then the request stays open."""
        import anyio

        async with self._one_at_a_time:
            if not self._console.is_terminal:
                return _leave_open("this is not a terminal, so nobody can be asked here")
            try:
                return await Question(self._console, request, self._actor).settle()
            except EndOfInput:
                return _leave_open("the input ended without an answer")
            except anyio.get_cancelled_exc_class():
                with suppress(EndOfInput):
                    self._console.write("\nThis question is withdrawn; no answer is needed.")
                raise


def _leave_open(why: str) -> None:
    print(f"The call has not run: {why}. The request stays open.", file=sys.stderr, flush=True)
