"""A gateway keeps its connection to a server: calls do not connect anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.mcp_client.mounted_servers import Era, Web, web_peer
from tests.runtime.host_runtime import call, new_session, serving


class Wire:
    """What lies between the gateway and a server, and counts connections."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0


@asynccontextmanager
async def wired(web: Web) -> AsyncGenerator[Wire]:
    wire, pumps = Wire(), set[asyncio.Task[None]]()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire.connections += 1
        there = await asyncio.open_connection("127.0.0.1", web.port)
        pumps.update({asyncio.create_task(pump(reader, there[1]))})
        pumps.update({asyncio.create_task(pump(there[0], writer))})

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


@pytest.mark.wire
@pytest.mark.parametrize("era", ["newer", "older"])
async def test_calls_of_all_sessions_share_the_connections_upstream(era: Era) -> None:
    """Calls use the connections that there are, whoever calls in whichever session. One or two more
    may be opened while another one has yet to hear the end of its last answer.
    """
    async with web_peer(era) as web, wired(web) as wire:
        there = Web(era, wire.port)
        async with serving(mcp_servers=[there.config()]) as runtime:
            first, second = await new_session(runtime), await new_session(runtime)
            assert (await call(runtime, first, "peer_add", a=1, b=2)).status == "completed"
            before = wire.connections
            for session in (first, second) * 5:
                assert (await call(runtime, session, "peer_add", a=1, b=2)).status == "completed"
            assert wire.connections <= before + 2
