"""The calls that run at a mounted server, and which of them a message of the server belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.mcp_client.calling_client import CLIENT_HERE

if TYPE_CHECKING:
    from toolcrib.mcp_client.calling_client import CallingClient
    from toolcrib.tools.context import ToolContext


@dataclass(frozen=True, slots=True, eq=False)
class AskingCall:
    """A call that runs at a server. `label` makes what people read of the server's words."""

    context: ToolContext
    label: Callable[[str], str]
    client: CallingClient | None = field(default_factory=CLIENT_HERE.get)
    refusals: list[str] = field(default_factory=list[str])
    """Why requests of the server were refused here, so that the server is not blamed for it."""
    variables: Context = field(default_factory=copy_context)

    async def ask(self, question: str, answer: Any = str, *, choices: Sequence[str] = ()) -> Any:
        """Ask the person behind the call. A server's question comes in the task of its connection,
        which does not know the client that the call came from.
        """
        text = self.label(question)
        if choices:
            asked = self.context.ask(text, choices=choices)
        else:
            asked = self.context.ask(text, answer)
        task = asyncio.get_running_loop().create_task(asked, context=self.variables)
        try:
            return await task
        finally:
            task.cancel()


_CALL_THERE: Final[ContextVar[AskingCall | None]] = ContextVar("toolcrib_call_there", default=None)


class RunningCalls:
    """The calls of one connection.

    In the stateless protocol a request of the server comes as the result of its call, and over HTTP
    any message comes with the response to it. On a pipe messages come by themselves: they belong to
    the one call that runs there, and to nobody when several do, for they may be of different
    people.
    """

    def __init__(self) -> None:
        self._running: list[AskingCall] = []
        self._clients: dict[str, CallingClient | None] = {}
        """The last client of each session that has called, of at most two; None for a session
        whose calls come another way.
        """

    @contextmanager
    def of(self, call: AskingCall) -> Generator[None]:
        """Let what the server says and asks meanwhile be of a call."""
        before = _CALL_THERE.get()
        _CALL_THERE.set(call)
        self._running.append(call)
        session_id = call.context.session_id
        if len(self._clients) < 2 or session_id in self._clients:
            self._clients[session_id] = call.client
        try:
            yield
        finally:
            self._running.remove(call)
            _CALL_THERE.set(before)

    def asking(self) -> AskingCall | None:
        """The call that a request belongs to; None when that is not known."""
        call = _CALL_THERE.get()
        if call is not None and call in self._running:
            return call
        return self._running[0] if len(self._running) == 1 else None

    def listener(self) -> CallingClient | None:
        """The client that a log message is for: that of the call which it belongs to, else the
        only one that has called over this connection. A message that may be about the work of
        somebody else is for nobody.
        """
        call = self.asking()
        if call is not None:
            return call.client
        sessions = {call.context.session_id for call in self._running} or set(self._clients)
        if len(sessions) != 1:
            return None
        return self._clients.get(sessions.pop())
