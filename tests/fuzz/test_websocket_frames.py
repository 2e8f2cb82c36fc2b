"""Wrong frames on sockets of a real server."""

from __future__ import annotations

import asyncio
import os
import random
import struct
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.fuzz.api_server import TOKEN
from tests.fuzz.frames import WHOLE, frames
from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.transports.rpc_client import RpcClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COUNT = 12_000
BROKEN = 300
HUGE = 10_000_001


@asynccontextmanager
async def serving() -> AsyncGenerator[str]:
    """A server in a process of its own; gives its address and ends it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fuzz.api_server"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip().removeprefix("http://")
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def speaking(address: str) -> AsyncGenerator[tuple[RpcClient, ClientConnection]]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with connect(
        f"ws://{address}/v1/ws", additional_headers=headers, proxy=None, max_size=None
    ) as socket:
        client = RpcClient(socket.send)

        async def listen() -> None:
            async for frame in socket:
                assert isinstance(frame, str)
                client.take(frame)
            client.lost()

        listening = asyncio.ensure_future(listen())
        yield client, socket
        await socket.close()
        await listening


def call(text: str) -> dict[str, Any]:
    return {"session_id": "0", "name": "echo", "arguments": {"text": text}}


async def test_no_frame_stops_the_others() -> None:
    """12,000 wrong frames on one socket, right requests among them: all of these are answered, on
    this socket and on another.
    """
    async with (
        serving() as address,
        speaking(address) as (client, socket),
        speaking(address) as (steady, _),
    ):
        asked: list[Any] = []
        for number, frame in enumerate(frames(COUNT, seed=2)):
            await socket.send(frame.decode(errors="replace"))
            if number % 100 == 0:
                asked.append(await client.begin("tools.call", call(str(number))))
            if number % 1_000 == 0:
                assert await steady.ask("ping") == {}
        async with asyncio.timeout(PATIENCE):
            told = [await client.end(each) for each in asked]

    assert [each["value"]["text"] for each in told] == [str(n) for n in range(0, COUNT, 100)]
    assert client.complaints.qsize() > COUNT / 3


def _frame(
    first: int, payload: bytes, *, is_masked: bool = True, length: int | None = None
) -> bytes:
    """A frame as it is on the wire; `length` may lie."""
    size = len(payload) if length is None else length
    mask = 0x80 if is_masked else 0
    if size < 126:
        head = bytes([first, mask | size])
    elif size < 2**16:
        head = bytes([first, mask | 126]) + struct.pack("!H", size)
    else:
        head = bytes([first, mask | 127]) + struct.pack("!Q", size)
    # A mask of zeros changes nothing.
    return head + (bytes(4) if is_masked else b"") + payload


def broken(dice: random.Random) -> bytes:
    """Bytes that are no sound frame of text."""
    return dice.choice(
        (
            _frame(0x81, b'"\xff\xfe"'),
            _frame(0x81, b"\xed\xa0\x80"),
            _frame(0x82, WHOLE),
            _frame(0x81, WHOLE, is_masked=False),
            _frame(0xF1, WHOLE),
            _frame(0x83, WHOLE),
            _frame(0x80, WHOLE),
            _frame(0x01, WHOLE) + _frame(0x81, WHOLE),
            _frame(0x09, b"fragmented ping"),
            _frame(0x89, b"p" * 126),
            _frame(0x88, b"\x00"),
            _frame(0x88, b"\x03\xe7"),
            _frame(0x81, b"", length=HUGE),
            _frame(0x81, b"", length=2**63 - 1),
            _frame(0x81, WHOLE)[: dice.randrange(1, 20)],
            dice.randbytes(dice.randrange(1, 60)),
        )
    )


async def _throw(address: str, thrown: bytes) -> None:
    """Open a socket, send these bytes and leave; what the server says to it is read to its end."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = (
        "GET /v1/ws HTTP/1.1",
        f"Host: {address}",
        f"Authorization: Bearer {TOKEN}",
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    writer.write("\r\n".join([*lines, "", ""]).encode())
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(thrown)
    writer.write_eof()
    with suppress(ConnectionError):
        await reader.read()
    writer.close()


async def test_no_broken_socket_stops_the_others() -> None:
    """Frames that the protocol of sockets forbids end their own socket and nothing else: bytes that
    are no UTF-8, unmasked, endless, cut off, of no known kind.
    """
    dice = random.Random(3)
    async with serving() as address, speaking(address) as (steady, _):
        for number in range(BROKEN):
            async with asyncio.timeout(PATIENCE):
                await _throw(address, broken(dice))
            if number % 10 == 0:
                told = await steady.ask("tools.call", call(str(number)))
                assert told["value"] == {"text": str(number)}
