"""Requests of the stateless protocol over HTTP: most are answered with one JSON document."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from toolcrib.serving.refusals import wait_for_disconnect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext
    from starlette.types import Message, Receive, Scope, Send

    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_VERSION: Final = b"mcp-protocol-version"
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
_STREAMED: Final = (
    b'"progressToken"',
    b'"io.modelcontextprotocol/logLevel"',
    b'"subscriptions/listen"',
)
"""The keys of a request that may get more than one message. As text elsewhere in the body they only
cost a stream that was not needed.
"""

_WATCH: Final = "toolcrib.watch"

WATCH_AFTER_SECONDS: Final = 0.05
"""When to start to watch for a disconnect."""


@dataclass(frozen=True, slots=True)
class Body:
    """The whole body of a request."""

    content: bytes

    def replayed(self, receive: Receive) -> Receive:
        """A `receive` that repeats the body first."""
        first = [self.content]

        async def replay() -> Message:
            if first:
                return {"type": "http.request", "body": first.pop(), "more_body": False}
            return await receive()

        return replay


def is_stateless(scope: Scope) -> bool:
    """Whether a request declares the stateless protocol, or an unknown version."""
    version = next((value for name, value in scope["headers"] if name == _VERSION), None)
    return version is not None and version not in _HANDSHAKE


def needs_stream(body: Body) -> bool:
    """Whether the request may get more than its answer."""
    return any(marker in body.content for marker in _STREAMED)


def watch_of(ctx: ServerRequestContext[Any, Any]) -> ClientWatch | None:
    """The watch of a request whose task the server keeps; None for others."""
    return None if ctx.request is None else ctx.request.scope.get(_WATCH)


async def answer_once(
    answer: Application,
    scope: Scope,
    body: Body,
    receive: Receive,
    send: Send,
    *,
    is_kept: bool = False,
) -> None:
    """Answer with one JSON document. A client that disconnects before cancels the request.
    `is_kept` says that the server does not cancel the task of the request.
    """
    watch = ClientWatch(receive)
    if is_kept:
        scope[_WATCH] = watch
    try:
        await answer(scope, body.replayed(receive), send)
    except asyncio.CancelledError:
        if not watch.has_left:
            raise
        watch.take_back()
    finally:
        # Otherwise the request would be a reference cycle, left to the garbage collector.
        scope.pop(_WATCH, None)
        watch.end()


class ClientWatch:
    """Cancels the task of a request when the client disconnects, or calls `on_leave` instead. It
    starts to watch after a delay: most requests end before, and a second task for each of them
    would cost as much as a call.
    """

    def __init__(self, receive: Receive) -> None:
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._task = task
        self._receive = receive
        self._leaving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = task.get_loop().call_later(
            WATCH_AFTER_SECONDS, self._begin
        )
        self.on_leave: Callable[[], None] | None = None
        self.has_left = False

    def end(self) -> None:
        """Stop to watch: the request is answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._leaving is not None:
            self._leaving.cancel()

    def take_back(self) -> None:
        """Clear the cancellation that this watch has caused."""
        self._task.uncancel()

    def _begin(self) -> None:
        self._leaving = asyncio.ensure_future(wait_for_disconnect(self._receive))
        self._leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Task[None]) -> None:
        if leaving.cancelled():
            return
        if self.on_leave is not None:
            self.on_leave()
            return
        self.has_left = True
        self._task.cancel()
