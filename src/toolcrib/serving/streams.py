"""The open streams of logins, which end when their login does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.serving.login import Login

_log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
"""How often the logins of open streams are checked."""
POLICY_VIOLATION: Final = 1008
_DISCONNECT: Final = {"type": "http.disconnect"}


class LoginStreams:
    """Runs requests that may stay open: WebSockets and event streams. When a token is revoked or
    expires, they end within about a second; what they have started continues, as it does when a
    client disconnects.
    """

    def __init__(self, is_valid: Callable[[Login], bool]) -> None:
        self._is_valid = is_valid
        self._open: set[_HttpStream | _WebSocket] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closings: set[asyncio.Task[None]] = set()

    async def run(
        self, app: ASGIApp, login: Login, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Run the application until it is done or the login ends."""
        kind = _WebSocket if scope["type"] == "websocket" else _HttpStream
        stream = kind(login, receive, send)
        self._open.add(stream)
        self._schedule()
        try:
            await app(scope, stream.receive, stream.send)
            await stream.complete()
        finally:
            self._open.discard(stream)

    def check(self) -> None:
        """End the streams whose login no longer holds."""
        for stream in [each for each in self._open if not self._is_valid(each.login)]:
            self._open.discard(stream)
            _log.info("%s is no longer valid; an open stream of it ends", stream.login.credential)
            task = asyncio.ensure_future(stream.end())
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)

    def _schedule(self) -> None:
        if self._timer is None and self._open:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.check()
        self._schedule()


class _HttpStream:
    def __init__(self, login: Login, receive: Receive, send: Send) -> None:
        self.login = login
        self._receive, self._send = receive, send
        self._is_body_read = False
        self._is_answering = False
        self._ended = asyncio.get_running_loop().create_future()

    async def receive(self) -> Any:
        """The next message; a disconnect once the login has ended."""
        if not self._is_body_read:
            message = await self._receive()
            self._is_body_read = not message.get("more_body", False)
            return message
        if self._ended.done():
            return _DISCONNECT
        waiting = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((waiting, self._ended), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else _DISCONNECT
        finally:
            waiting.cancel()

    async def send(self, message: Any) -> None:
        """Send, and note whether the answer is complete."""
        is_body = message["type"] == "http.response.body"
        self._is_answering = not is_body or bool(message.get("more_body", False))
        await self._send(message)

    async def end(self) -> None:
        """The login has ended."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def complete(self) -> None:
        """Finish an answer that was broken off because the login has ended."""
        if self._ended.done() and self._is_answering:
            await self._send({"type": "http.response.body", "body": b""})


class _WebSocket:
    def __init__(self, login: Login, receive: Receive, send: Send) -> None:
        self.login = login
        self.receive, self._send = receive, send
        self._is_ended = False

    async def send(self, message: Any) -> None:
        """Send. Raises `OSError` when the login has ended."""
        if self._is_ended:
            raise ConnectionError("the login of this WebSocket has ended")
        await self._send(message)

    async def end(self) -> None:
        """Close the socket; the server then reports a disconnect to the application."""
        self._is_ended = True
        reason = "the token is no longer valid"
        await self._send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})

    async def complete(self) -> None:
        """Nothing is left to do."""
