"""Messages on two pipes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.transports.acp.line_transport import MAX_FRAMES, LineTransport
from toolcrib.transports.pipes import Pipes

LARGE = "x" * 300_000


class Ends:
    """A transport, and the other ends of its pipes."""

    def __init__(self) -> None:
        to_us, to_them = os.pipe(), os.pipe()
        self.writes = to_us[1]
        self.reads = os.fdopen(to_them[0], "rb")
        self.pipes = Pipes(to_us[0], to_them[1])
        self.transport = LineTransport(self.pipes, 1_000_000)

    async def hear(self) -> Any:
        return json.loads(await asyncio.to_thread(self.reads.readline))

    async def close(self) -> None:
        await self.transport.written(0)
        os.close(self.writes)
        self.reads.close()
        self.pipes.close()


@asynccontextmanager
async def ends() -> AsyncGenerator[Ends]:
    both = Ends()
    try:
        yield both
    finally:
        await both.close()


async def test_a_message_is_sent_whole_though_its_sender_leaves() -> None:
    """A call that is cancelled while it is told leaves no half a line."""
    async with ends() as both:
        sending = asyncio.ensure_future(both.transport.send({"text": LARGE}))
        await asyncio.sleep(0)
        sending.cancel()
        await both.transport.send({"text": "next"})

        assert await both.hear() == {"text": LARGE}
        assert await both.hear() == {"text": "next"}


async def test_for_who_does_not_read_no_more_is_made() -> None:
    """Whoever makes messages waits, and goes on when they are read; none is dropped."""
    async with ends() as both:
        made = 0

        async def make() -> None:
            nonlocal made
            for number in range(2 * MAX_FRAMES):
                await both.transport.send({"number": number, "text": "x" * 200})
                made = number + 1

        making = asyncio.ensure_future(make())
        for _ in range(3 * MAX_FRAMES):
            await asyncio.sleep(0)
        assert MAX_FRAMES / 2 < made < 2 * MAX_FRAMES

        heard = [(await both.hear())["number"] for _ in range(2 * MAX_FRAMES)]
        await making
        assert heard == list(range(2 * MAX_FRAMES))


async def test_answers_to_nothing_are_dropped() -> None:
    """An id that no request can have would end the connection if it were looked up."""
    async with ends() as both:
        for line in (b'{"id":[],"result":{}}', b'{"id":{},"error":{}}', b'{"id":3,"result":4}'):
            os.write(both.writes, line + b"\n")

        assert await both.transport.receive() == {"id": 3, "result": 4}


async def test_the_last_line_needs_no_end() -> None:
    """What comes without a line break before the end of the input is a message too."""
    async with ends() as both:
        os.write(both.writes, b'{"jsonrpc":"2.0","method":"last"}')
        os.close(both.writes)
        first, end = await both.transport.receive(), await both.transport.receive()
        both.writes = os.open(os.devnull, os.O_WRONLY)

        assert first == {"method": "last", "params": {}}
        assert end is None
