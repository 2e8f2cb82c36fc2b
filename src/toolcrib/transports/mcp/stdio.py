"""MCP on stdin and stdout."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage

from toolcrib.runtime.held import wait_at_most
from toolcrib.transports.mcp.stdio_messages import InFlight, Unreadable, as_line, read_message
from toolcrib.transports.stdio import FLUSH_SECONDS
from toolcrib.transports.stdio_lines import Lines
from toolcrib.transports.stdio_pipes import Pipes, Writing, chunks
from toolcrib.transports.stop_signals import on_stop_signals

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from toolcrib.transports.mcp.server import McpServer

    Incoming = MemoryObjectSendStream[SessionMessage | Exception]
    Outgoing = MemoryObjectReceiveStream[SessionMessage]


async def serve_stdio(server: McpServer, pipes: Pipes) -> None:
    """Start the runtime and serve one client until it ends its input, leaves, or the process is
    asked to stop; then answer what is in flight, cancel what lasts, and close the runtime.
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
        self._in_flight = InFlight()
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
        # Without a reader of what we write, there is nobody left to serve.
        reading.cancel()
        await asyncio.wait([running], timeout=FLUSH_SECONDS)
        running.cancel()
        await asyncio.wait([writing], timeout=FLUSH_SECONDS)
        writing.cancel()
        await _ended(running, reading, writing)

    async def _read(
        self, incoming: Incoming, answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        """Pass on what comes until there is no more, then wait until it is answered."""
        most = self._server.runtime.config.max_payload_bytes
        async with incoming, answers:
            taking = asyncio.ensure_future(self._take(incoming, answers, most))
            stopping = asyncio.ensure_future(self._stopped.wait())
            await asyncio.wait([taking, stopping], return_when=asyncio.FIRST_COMPLETED)
            self._server.end_listening()
            drain = self._server.runtime.config.drain_seconds
            # Not while the client is heard no more: it may have to answer a form first.
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
            except Unreadable as unreadable:
                await answers.send(SessionMessage(unreadable.answer))
                return
            await incoming.send(SessionMessage(message))

    async def _write(self, outgoing: Outgoing) -> None:
        """Ends when the client does not read any more; the messages left are for nobody."""
        out = Writing(self._pipes.writes)
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
