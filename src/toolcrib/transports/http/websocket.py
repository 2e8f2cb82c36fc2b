"""The WebSocket endpoint: JSON-RPC in text frames, the same as on stdio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from toolcrib.serving.auth import SUBPROTOCOL, headers_of, principal_of
from toolcrib.transports.peer import Peer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections

UNSUPPORTED: Final = 1003


class WebSocketEndpoint:
    """Serves one client per WebSocket. Its calls and prompts continue when it disconnects; it
    reconnects and subscribes after the last event it has. An ASGI application.
    """

    def __init__(self, runtime: Runtime, connections: Connections) -> None:
        self._runtime = runtime
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()
        await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope)})
        peer = Peer(self._runtime, principal_of(scope))
        sending = asyncio.ensure_future(_send_frames(peer, send))
        with self._connections.open_peer(peer):
            code = await _receive_frames(peer, receive)
            peer.close()
        await sending
        if code is not None:
            await send({"type": "websocket.close", "code": code})


def _subprotocol(scope: Scope) -> str | None:
    offered = headers_of(scope).get(b"sec-websocket-protocol", b"").split(b",")
    return SUBPROTOCOL if SUBPROTOCOL.encode() in [name.strip() for name in offered] else None


async def _receive_frames(peer: Peer, receive: Receive) -> int | None:
    """Receive frames until the client disconnects; returns the code to close with, if any."""
    while True:
        message: Any = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        if text is None:
            return UNSUPPORTED
        await peer.receive(text)


async def _send_frames(peer: Peer, send: Send) -> None:
    try:
        async for frame in peer.frames():
            await send({"type": "websocket.send", "text": frame})
    except OSError:
        # The client has disconnected: producers that wait for room must not wait on.
        peer.close()
