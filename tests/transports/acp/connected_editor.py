"""An editor and an agent in one process, with real pipes between them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from acp.client.connection import ClientSideConnection
from acp.schema import ClientCapabilities

from tests.transports.acp.editor import Desk, TheEditor
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.transports.acp.line_transport import LineTransport
from toolcrib.transports.acp.server import AcpConnection
from toolcrib.transports.pipes import Pipes


class Wired:
    """A desk whose agent is in this process; `hang_up` is the editor that goes away."""

    def __init__(self, runtime: Runtime, who: Principal) -> None:
        to_agent, self._to_editor = os.pipe(), os.pipe()
        self._writes = to_agent[1]
        self._pipes = Pipes(to_agent[0], self._to_editor[1])
        self._transport = LineTransport(self._pipes, runtime.config.max_payload_bytes)
        self._served = AcpConnection(runtime, self._transport, who)
        self._listening = asyncio.ensure_future(self._served.connection.main_loop())
        self._is_open = True
        self.editor = TheEditor()

    async def connect(self) -> Desk:
        reader, self._writer = await _streams(self._to_editor[0], self._writes)
        self._agent = ClientSideConnection(
            self.editor,  # pyright: ignore[reportArgumentType]
            self._writer,
            reader,
            # Elicitation is not in the stable protocol yet.
            use_unstable_protocol=True,
        )
        return Desk(self.editor, self._agent)

    async def end_input(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        await self._agent.close()
        self._writer.close()
        await self._listening
        self._served.agent.close()
        await self._served.connection.close()
        await self._transport.written(1)
        self._pipes.close()


@asynccontextmanager
async def connected(runtime: Runtime, who: Principal = OWNER) -> AsyncGenerator[tuple[Wired, Desk]]:
    """An editor that has not initialized yet."""
    wired = Wired(runtime, who)
    desk = await wired.connect()
    try:
        yield wired, desk
    finally:
        await wired.end_input()


@asynccontextmanager
async def wired_desk(
    runtime: Runtime, capabilities: ClientCapabilities | None = None, who: Principal = OWNER
) -> AsyncGenerator[Desk]:
    """An initialized editor of a runtime that is started here."""
    async with runtime, connected(runtime, who) as (_, desk):
        await desk.agent.initialize(protocol_version=1, client_capabilities=capabilities)
        yield desk


async def _streams(reads: int, writes: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=50_000_000)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(reads, "rb"))
    transport, writing = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(writes, "wb")
    )
    return reader, asyncio.StreamWriter(transport, writing, reader, loop)
