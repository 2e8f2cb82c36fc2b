"""Streamable HTTP as an ASGI application, behind the authentication of the HTTP server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from toolcrib.errors import Refused, StoreError
from toolcrib.runtime.live_session import wait_at_most
from toolcrib.serving.auth import principal_of
from toolcrib.serving.refusals import as_refused, read_body, send_refusal
from toolcrib.store.shared_store import is_shared
from toolcrib.transports.mcp.client_sessions import standing_of
from toolcrib.transports.mcp.shared_clients import SharedClients
from toolcrib.transports.mcp.stateless import Body, answer_once, is_stateless, needs_stream
from toolcrib.transports.mcp.stream_events import RETRY_MS, ResumableSessions, StreamEvents

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.principal import Principal
    from toolcrib.transports.mcp.server import McpServer


_MAX_USERS: Final = 1_024
_NOT_KEPT: Final = (
    "the messages after this Last-Event-ID are not kept here: they were too many, or another "
    "server sent them; send the request again"
)


class McpEndpoint:
    """An ASGI application that starts with its first request and ends with `close`. `keeps_tasks`
    is that of `Connections`.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.keeps_tasks = False
        self._limit = server.runtime.config.max_payload_bytes
        self._events = StreamEvents()
        self._streams = self._manager(has_streams=True)
        self._streams.events = self._events
        self._answers = self._manager(has_streams=False)
        self._clients: SharedClients | None = None
        store = server.runtime.store
        if is_shared(store):
            idle_seconds = server.options.idle_seconds
            answers = server.runtime.client_answers
            self._clients = SharedClients(
                store, self._streams.handle_request, idle_seconds, answers
            )
        self._running: asyncio.Task[None] | None = None
        self._is_ready = asyncio.Event()
        self._is_stopped = asyncio.Event()
        self._open = 0
        self._quiet = asyncio.Event()
        self._users: dict[Principal, AuthenticatedUser] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._is_stopped.is_set():
            await send_refusal(send, Refused("closing", "the server is closing"))
            return
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        await self._is_ready.wait()
        # The HTTP parser keeps the space after a value, which is no part of it (RFC 9110, 5.5).
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        # By the user the SDK refuses requests to a session of another principal.
        scope["user"] = self._user(principal_of(scope))
        if scope["method"] != "POST":
            resumed = _header(scope, b"last-event-id")
            if resumed is not None and not self._events.has(resumed):
                await send_refusal(send, Refused("invalid", _NOT_KEPT))
                return
            await self._stream(scope, None, receive, send)
            return
        self._open += 1
        try:
            await self._post(scope, receive, send)
        finally:
            self._open -= 1
            if self._open == 0:
                self._quiet.set()

    async def close(self, drain_seconds: float) -> None:
        """Refuse new requests, let running ones end within the drain time, and cancel the rest."""
        self._is_stopped.set()
        self._server.end_listening()
        if self._running is None:
            return
        if self._open:
            self._quiet.clear()
            await wait_at_most(self._quiet, drain_seconds)
        if self._clients is not None:
            self._clients.close()
        self._running.cancel()
        await asyncio.wait([self._running])

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        quotas = self._server.runtime.quotas
        try:
            raw = await read_body(receive, self._limit)
            quotas.take_bytes(principal_of(scope), len(raw))
        except Refused as refused:
            await send_refusal(send, refused)
            return
        body = Body(raw)
        if not is_stateless(scope) or needs_stream(body):
            await self._stream(scope, body, receive, send)
        else:
            answer, is_kept = self._answers.handle_request, self.keeps_tasks
            await answer_once(answer, scope, body, receive, send, is_kept=is_kept)

    async def _stream(self, scope: Scope, body: Body | None, receive: Receive, send: Send) -> None:
        if self._clients is not None and not is_stateless(scope):
            try:
                content = None if body is None else body.content
                await self._clients.answer(scope, content, receive, send)
            except StoreError as error:
                await send_refusal(send, as_refused(error, "mcp"))
        else:
            replayed = receive if body is None else body.replayed(receive)
            await self._streams.handle_request(scope, replayed, send)

    def _manager(self, *, has_streams: bool) -> ResumableSessions:
        config = self._server.runtime.config
        return ResumableSessions(
            self._server.sdk,
            json_response=not has_streams,
            stateless=not has_streams,
            retry_interval=RETRY_MS,
            session_idle_timeout=self._server.options.idle_seconds if has_streams else None,
            max_request_body_size=config.max_payload_bytes,
            max_sessions=config.max_sessions,
        )

    async def _run(self) -> None:
        async with AsyncExitStack() as both:
            await both.enter_async_context(self._streams.run())
            await both.enter_async_context(self._answers.run())
            if self._clients is not None:
                self._clients.start()
            self._is_ready.set()
            await asyncio.Event().wait()

    def _user(self, who: Principal) -> AuthenticatedUser:
        known = self._users.get(who)
        if known is None:
            # The SDK compares name and subject; tokens of one name may have different rights.
            token = AccessToken(
                token="", client_id=who.name, subject=standing_of(who), scopes=sorted(who.roles)
            )
            if len(self._users) >= _MAX_USERS:
                self._users.clear()
            known = self._users[who] = AuthenticatedUser(token)
        return known


def _header(scope: Scope, name: bytes) -> str | None:
    value = next((value for key, value in scope["headers"] if key == name), None)
    return None if value is None else value.decode("latin-1")
