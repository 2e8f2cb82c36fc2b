"""The egress proxy: the only way out of a container that may reach some domains.

It serves one container on a socket file. A tunnel must begin with TLS for the very host that it was
opened to; a plain request is passed on alone, with a `Host` of the proxy's own. Names are resolved
here, once, and connected to as resolved, so that neither a redirect nor a second answer of a name
server leads anywhere else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import FIRST_COMPLETED, FIRST_EXCEPTION
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.embedded.client_hello import MAX_HELLO, read_server_name
from toolcrib.embedded.forward_request import (
    ForwardRequest,
    copy_body,
    plain_head,
    read_forward_request,
)
from toolcrib.errors import EgressRefused

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from toolcrib.egress import EgressPolicy, Resolver
    from toolcrib.embedded.domain_list import DomainList

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 64
HEAD_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 300.0
LINGER_SECONDS: Final = 2.0
_MOST_UNREAD: Final = 1024 * 1024
_PIECE: Final = 65_536
_WEB_PORTS: Final = (80, 443)
_TUNNEL_OPEN: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class EgressProxy:
    """Lets connections of one container through to its domains."""

    def __init__(
        self, domains: DomainList, policy: EgressPolicy, resolver: Resolver | None = None
    ) -> None:
        self._domains = domains
        self._policy = policy
        self._resolver = resolver
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        """Listen on a socket file, in a folder that nobody else can enter."""
        self._server = await asyncio.start_unix_server(self._accept, str(path), limit=_PIECE)
        # Commands may run as another user.
        os.chmod(path, 0o666)

    async def close(self) -> None:
        """Close every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                _refuse(writer, 503, "too many connections at once")
            else:
                await self._serve(reader, writer)
            await _linger(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.LimitOverrunError):
            # The other side left, was too slow, or sent no HTTP.
            pass
        finally:
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        request = read_forward_request(head)
        if isinstance(request, str):
            _refuse(writer, 400, request)
            return
        fault = self._fault(request)
        if fault is not None:
            logger.info("a container may not connect to %r: %s", request.host[:80], fault)
            _refuse(writer, 403, fault)
            return
        request = replace(request, host=self._domains.plain(request.host) or "")
        if request.is_tunnel:
            await self._tunnel(request, reader, writer)
        else:
            await self._pass_on(request, reader, writer)

    def _fault(self, request: ForwardRequest) -> str | None:
        """Why a request is refused."""
        if not self._domains.admits(request.host):
            return f"{request.host[:200]} is not among the allowed domains: {self._domains}"
        is_allowed = self._policy.allows_host(request.host, request.port)
        if request.port not in _WEB_PORTS and not is_allowed:
            return f"port {request.port} is not open; only 80 and 443 are"
        return None

    async def _tunnel(
        self, request: ForwardRequest, reader: StreamReader, writer: StreamWriter
    ) -> None:
        if await self._is_unreachable(request):
            _refuse(writer, 403, f"{request.host} has no address that may be connected to")
            return
        writer.write(_TUNNEL_OPEN)
        await writer.drain()
        async with asyncio.timeout(HEAD_SECONDS):
            hello = await _first_record(reader)
        name = read_server_name(hello)
        if name is None or self._domains.plain(name) != request.host:
            logger.info("a tunnel to %r is closed: it has no TLS for that host", request.host[:80])
            return
        far = await self._connected(request)
        if far is not None:
            far[1].write(hello)
            await _pump_both((reader, writer), far)

    async def _pass_on(
        self, request: ForwardRequest, reader: StreamReader, writer: StreamWriter
    ) -> None:
        far = await self._connected(request)
        if far is None:
            _refuse(writer, 502, f"{request.host} cannot be reached")
            return
        far_reader, far_writer = far
        try:
            if request.expects_continue:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            far_writer.write(plain_head(request))
            answer = asyncio.ensure_future(_pump(far_reader, writer))
            sending = asyncio.ensure_future(copy_body(request, reader, far_writer))
            try:
                # A server may answer before it has the whole body.
                done, _ = await asyncio.wait([answer, sending], return_when=FIRST_COMPLETED)
                if answer not in done and sending.exception() is None:
                    await answer
            finally:
                sending.cancel()
                answer.cancel()
                await asyncio.gather(answer, sending, return_exceptions=True)
        finally:
            far_writer.close()

    async def _is_unreachable(self, request: ForwardRequest) -> bool:
        try:
            await self._policy.addresses(request.host, request.port, self._resolver)
        except EgressRefused:
            return True
        return False

    async def _connected(self, request: ForwardRequest) -> tuple[StreamReader, StreamWriter] | None:
        """A connection to one of the host's addresses, as they were resolved and checked."""
        try:
            addresses = await self._policy.addresses(request.host, request.port, self._resolver)
        except EgressRefused:
            return None
        for address in addresses:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, request.port, limit=_PIECE)
        return None


async def _first_record(reader: StreamReader) -> bytes:
    """The first TLS record of a client."""
    head = await reader.readexactly(5)
    size = int.from_bytes(head[3:5], "big")
    if head[0] != 0x16 or not 0 < size <= MAX_HELLO:
        return b""
    return head + await reader.readexactly(size)


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    while True:
        async with asyncio.timeout(IDLE_SECONDS):
            piece = await reader.read(_PIECE)
        if not piece:
            with suppress(OSError):
                writer.write_eof()
            return
        writer.write(piece)
        async with asyncio.timeout(IDLE_SECONDS):
            await writer.drain()


async def _pump_both(
    near: tuple[StreamReader, StreamWriter], far: tuple[StreamReader, StreamWriter]
) -> None:
    """Pass bytes on in both directions until both sides end, or one fails."""
    ways = [
        asyncio.ensure_future(_pump(near[0], far[1])),
        asyncio.ensure_future(_pump(far[0], near[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=FIRST_EXCEPTION)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        far[1].close()


async def _linger(reader: StreamReader, writer: StreamWriter) -> None:
    """Wait until the client has left: to close on what it still sends would lose the answer."""
    with suppress(OSError, RuntimeError):
        writer.write_eof()
    left = _MOST_UNREAD
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0 and (piece := await reader.read(_PIECE)):
                left -= len(piece)


def _refuse(writer: StreamWriter, status: int, why: str) -> None:
    reasons = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}
    body = f"toolcrib egress proxy: {why}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status} {reasons.get(status, 'Refused')}\r\ncontent-type: text/plain\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
