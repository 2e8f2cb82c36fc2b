"""MCP on stdin and stdout. Unlike the transport of the SDK it bounds messages and open requests,
answers invalid lines, and drains when the process stops.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from toolcrib.runtime.live_session import wait_at_most
from toolcrib.serving.stop_signals import on_stop_signals
from toolcrib.transports.pipes import Lines, Pipes, PipeWriter, chunks

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from toolcrib.transports.mcp.server import McpServer

    Incoming = MemoryObjectSendStream[SessionMessage | Exception]
    Outgoing = MemoryObjectReceiveStream[SessionMessage]

FLUSH_SECONDS: Final = 5.0
"""How long the last messages may take to be written."""
_CANCELLED: Final = "notifications/cancelled"


MAX_IN_FLIGHT: Final = 1_000
"""How many requests may be unanswered: a client that does not read its answers is refused."""


class InvalidLine(Exception):
    """A line is not a valid message, or is refused; `answer` is the error for the client."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def read_message(line: bytes, max_bytes: int) -> JSONRPCMessage:
    """Parse a line. Raises `InvalidLine`."""
    if len(line) > max_bytes:
        raise InvalidLine(
            INVALID_REQUEST, f"the message has more than {max_bytes} bytes, the maximum"
        )
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        is_json = all(fault["type"] != "json_invalid" for fault in error.errors())
        if is_json:
            text = "the line is not a JSON-RPC 2.0 message"
            raise InvalidLine(INVALID_REQUEST, text) from None
        raise InvalidLine(PARSE_ERROR, "the line is not JSON") from None


def as_line(message: JSONRPCMessage) -> bytes:
    """A message as a line."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


class RequestsInFlight:
    """The unanswered requests of a client."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self.is_empty = asyncio.Event()
        self.is_empty.set()

    def begin(self, message: JSONRPCMessage) -> None:
        """Register an incoming message. Raises `InvalidLine` when too many requests are open."""
        if isinstance(message, JSONRPCRequest):
            if len(self._ids) >= MAX_IN_FLIGHT:
                text = f"{MAX_IN_FLIGHT} requests are unanswered; read their answers first"
                raise InvalidLine(INTERNAL_ERROR, text, message.id)
            self._ids.add(message.id)
            self.is_empty.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            # A cancelled request is never answered.
            self._drop((message.params or {}).get("requestId"))

    def end(self, message: JSONRPCMessage) -> None:
        """Register an outgoing message."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._drop(message.id)

    def _drop(self, request_id: object) -> None:
        self._ids.discard(request_id)
        if not self._ids:
            self.is_empty.set()


async def serve_stdio(server: McpServer, pipes: Pipes) -> None:
    """Start the runtime and serve one client until it ends its input, disconnects, or the process
    gets a stop signal; then answer open requests and close the runtime.
    """
    await server.runtime.start()
    try:
        await _Connection(server, pipes).serve()
    finally:
        await server.runtime.close()
        pipes.close()


class _Connection:
    def __init__(self, server: McpServer, pipes: Pipes) -> None:
        self._server = server
        self._pipes = pipes
        self._in_flight = RequestsInFlight()
        self._stopped = asyncio.Event()

    async def serve(self) -> None:
        incoming, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writes, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        sdk = self._server.sdk
        writing = asyncio.ensure_future(self._write(outgoing))
        reading = asyncio.ensure_future(self._read(incoming, writes.clone()))
        running = asyncio.ensure_future(sdk.run(reads, writes, sdk.create_initialization_options()))
        with on_stop_signals(self._stopped.set):
            await asyncio.wait([running, writing], return_when=asyncio.FIRST_COMPLETED)
        # A client that does not read any more has left.
        reading.cancel()
        await asyncio.wait([running], timeout=FLUSH_SECONDS)
        running.cancel()
        await asyncio.wait([writing], timeout=FLUSH_SECONDS)
        writing.cancel()
        await _ended(running, reading, writing)

    async def _read(
        self, incoming: Incoming, answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        """Pass on messages until the end of the input, then wait for their answers."""
        most = self._server.runtime.config.max_payload_bytes
        async with incoming, answers:
            taking = asyncio.ensure_future(self._take(incoming, answers, most))
            stopping = asyncio.ensure_future(self._stopped.wait())
            await asyncio.wait([taking, stopping], return_when=asyncio.FIRST_COMPLETED)
            self._server.end_listening()
            drain = self._server.runtime.config.drain_seconds
            # The client is still read meanwhile: it may have to answer a form first.
            await wait_at_most(self._in_flight.is_empty, drain)
            await _ended(taking, stopping, is_cancelled=True)

    async def _take(
        self, incoming: Incoming, answers: MemoryObjectSendStream[SessionMessage], most: int
    ) -> None:
        lines = Lines(most)
        async for chunk in chunks(self._pipes.reads):
            for line in lines.feed(chunk):
                await self._pass_on(line, most, incoming, answers)
        for line in lines.end():
            await self._pass_on(line, most, incoming, answers)

    async def _pass_on(
        self,
        line: bytes,
        most: int,
        incoming: Incoming,
        answers: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            try:
                message = read_message(line, most)
                self._in_flight.begin(message)
            except InvalidLine as unreadable:
                await answers.send(SessionMessage(unreadable.answer))
                return
            await incoming.send(SessionMessage(message))

    async def _write(self, outgoing: Outgoing) -> None:
        """Write messages until the client stops reading; the remaining ones are dropped."""
        out = PipeWriter(self._pipes.writes)
        with suppress(OSError):
            async with outgoing:
                async for message in outgoing:
                    await out.write(as_line(message.message))
                    self._in_flight.end(message.message)


async def _ended(*tasks: asyncio.Future[Any], is_cancelled: bool = False) -> None:
    for task in tasks:
        if is_cancelled:
            task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
