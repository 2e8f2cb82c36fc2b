"""Client tools over WebSocket: functions of this program as tools of a session on a server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import from_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from toolcrib.calls.executor import Executor
from toolcrib.client.http_requests import CONNECT_SECONDS, Sleep, refusal_in, refusal_of
from toolcrib.errors import Refused
from toolcrib.ledger.encoding import encode_value
from toolcrib.runtime.messages import ClientTool
from toolcrib.session.session import Session
from toolcrib.tools.prepared_tool import prepare
from toolcrib.transports.client_requests import CALL, CANCEL
from toolcrib.transports.jsonrpc import error_frame, request_frame, result_frame

if TYPE_CHECKING:
    from toolcrib.client.address import ServerLocation
    from toolcrib.tools.tool import Tool

FAILED: Final = -32000
"""The JSON-RPC code of a call that failed here."""
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_PASSING_KINDS: Final = ("unavailable", "closing", "conflict", "busy", "too_many_requests")

logger = logging.getLogger(__name__)


class _Connect(connect):
    """Follows no redirect: the token goes to one server only."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class ConnectedTools:
    """Runs tools of this program for a session on a server, from entering to leaving the context.

    A connection that is lost is made again and the tools are declared anew; calls that ran then
    have failed as `unavailable`. Approval is the server's to ask for, also where a tool requires
    it.
    """

    def __init__(
        self,
        location: ServerLocation,
        session_id: str,
        tools: Sequence[Tool[Any, Any] | Callable[..., Any]],
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        prepared = [prepare(tool) for tool in tools]
        self._declared = [
            ClientTool(
                name=each.tool.name,
                description=each.declaration.description,
                parameters=dict(each.declaration.parameters),
                requires_approval=each.tool.requires_approval,
                timeout=each.tool.timeout,
            )
            for each in prepared
        ]
        self._tools = [prepare(replace(each.tool, requires_approval=False)) for each in prepared]
        self._location = location
        self._session_id = session_id
        self._sleep = sleep
        self._serving: asyncio.Task[None] | None = None
        self._calls: dict[object, asyncio.Task[None]] = {}

    async def __aenter__(self) -> ConnectedTools:
        socket = await self._connect()
        self._serving = asyncio.ensure_future(self._serve(socket))
        return self

    async def __aexit__(self, *_: object) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await serving

    async def wait(self) -> None:
        """Wait until the tools can no longer be run. Raises `Refused` with the reason."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def _connect(self) -> ClientConnection:
        """A connection over which the tools are declared. Raises `Refused`."""
        location = self._location
        try:
            socket = await _Connect(
                location.socket_url,
                additional_headers={"Authorization": f"Bearer {location.token}"},
                proxy=location.proxy,
                ssl=location.tls() if location.is_encrypted else None,
                open_timeout=CONNECT_SECONDS,
                max_size=None,
            )
        except InvalidStatus as error:
            response = error.response
            raise refusal_in(response.status_code, bytes(response.body or b"")) from None
        except (OSError, TimeoutError, WebSocketException) as error:
            reason = str(error) or type(error).__name__
            raise Refused("unavailable", f"no answer from {location.name} ({reason})") from None
        try:
            await self._declare(socket)
        except WebSocketException as error:
            raise Refused(
                "unavailable", f"{location.name} closed the connection ({error})"
            ) from None
        except BaseException:
            await socket.close()
            raise
        return socket

    async def _declare(self, socket: ClientConnection) -> None:
        params = {
            "session_id": self._session_id,
            "client_tools": [asdict(tool) for tool in self._declared],
        }
        await socket.send(request_frame(1, "session.resume", params))
        while True:
            message = from_json(await socket.recv())
            if message.get("id") != 1 or "method" in message:
                continue
            if (error := message.get("error")) is not None:
                data: dict[str, Any] = error.get("data") or {}
                raise refusal_of({**data, "message": error.get("message")})
            return

    async def _serve(self, socket: ClientConnection) -> None:
        try:
            while True:
                with suppress(WebSocketException):
                    async for frame in socket:
                        self._receive(socket, from_json(frame))
                self._cancel_calls()
                socket = await self._reconnect()
        finally:
            self._cancel_calls()
            await socket.close()

    async def _reconnect(self) -> ClientConnection:
        delay = _FIRST_DELAY
        while True:
            try:
                return await self._connect()
            except Refused as refused:
                if refused.kind not in _PASSING_KINDS:
                    raise
                logger.info("the tools are not connected: %s", refused)
            await self._sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    def _receive(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        params = cast("dict[str, Any]", message.get("params") or {})
        match message.get("method"):
            case str(method) if method == CALL:
                call = asyncio.ensure_future(self._answer(socket, message["id"], params))
                self._calls[message["id"]] = call
                call.add_done_callback(lambda _: self._calls.pop(message["id"], None))
            case str(method) if method == CANCEL:
                call = self._calls.get(params.get("id"))
                if call is not None:
                    call.cancel()
            case _:
                pass

    async def _answer(
        self, socket: ClientConnection, request_id: str | int, params: dict[str, Any]
    ) -> None:
        # A session for each call: this program keeps no ledger, the server does.
        executor = Executor(Session(), self._tools)
        outcome = await executor.call(params["name"], params["arguments"])
        if outcome.status == "completed":
            frame = result_frame(request_id, from_json(encode_value(outcome.value)))
        else:
            frame = error_frame(request_id, FAILED, outcome.text)
        with suppress(WebSocketException):
            await socket.send(frame)

    def _cancel_calls(self) -> None:
        for call in tuple(self._calls.values()):
            call.cancel()
