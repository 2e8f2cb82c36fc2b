"""A runtime on standard input and output: one JSON-RPC message on each line."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.runtime.principal import OWNER
from toolcrib.serving.stop_signals import on_stop_signals
from toolcrib.transports.peer import Peer
from toolcrib.transports.pipes import Lines, Pipes, PipeWriter, chunks

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime

FLUSH_SECONDS: Final = 5.0
"""How long a client may take to read the last frames."""


async def serve_stdio(runtime: Runtime, pipes: Pipes, who: Principal = OWNER) -> None:
    """Start the runtime and serve one client until it ends its input, disconnects, or the process
    gets a stop signal; then answer open requests and close the runtime.

    `pipes` come from `claim_pipes`, which the program calls before it loads any tool.
    """
    await runtime.start()
    peer = Peer(runtime, replace(who, transport="stdio"))
    reading = asyncio.ensure_future(_read(peer, pipes.reads, runtime.config.max_payload_bytes))
    writing = asyncio.ensure_future(_write(peer, pipes.writes))
    stopped = asyncio.Event()
    waiting = asyncio.ensure_future(stopped.wait())
    try:
        with on_stop_signals(stopped.set):
            await asyncio.wait([reading, writing, waiting], return_when=asyncio.FIRST_COMPLETED)
            if stopped.is_set():
                peer.notify_closing()
            # The client is still read meanwhile: it may have client tools to answer for.
            await runtime.close()
            await peer.drain(FLUSH_SECONDS)
            peer.close()
            await asyncio.wait([writing], timeout=FLUSH_SECONDS)
    finally:
        await _end(reading, writing, waiting)
        pipes.close()


async def _read(peer: Peer, reads: int, most_bytes: int) -> None:
    lines = Lines(most_bytes)
    async for chunk in chunks(reads):
        for line in lines.feed(chunk):
            await peer.receive(line)
    for line in lines.end():
        await peer.receive(line)
    peer.end_input()


async def _write(peer: Peer, writes: int) -> None:
    """Write frames until the client stops reading; the remaining ones are dropped."""
    out = PipeWriter(writes)
    with suppress(OSError):
        async for frame in peer.frames():
            await out.write(frame.encode() + b"\n")


async def _end(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
