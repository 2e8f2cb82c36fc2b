"""Responses in one piece: what is written at once is one write, in order, and is not held back."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from toolcrib.transports.http.joined import JoinedWrites


class Pipe:
    """Notes what a transport is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("closed")

    def abort(self) -> None:
        self.told.append("aborted")

    def is_closing(self) -> bool:
        return "closed" in self.told


def joined(pipe: Pipe) -> JoinedWrites:
    return JoinedWrites(cast(Any, pipe), asyncio.get_running_loop())


async def test_a_head_and_its_body_are_one_write() -> None:
    """Two packets for every answer would cost the kernel twice."""
    pipe = Pipe()
    transport = joined(pipe)
    transport.write(b"head ")
    assert pipe.told == []
    transport.write(b"body")
    assert pipe.told == [b"head body"]


async def test_a_head_alone_goes_out_with_the_next_turn_of_the_loop() -> None:
    """A stream whose first event is far away has begun all the same."""
    pipe = Pipe()
    joined(pipe).write(b"head")
    await asyncio.sleep(0)
    assert pipe.told == [b"head"]


async def test_what_was_written_goes_out_before_the_end_and_in_order() -> None:
    """Closing flushes; aborting does not; everything else is the transport's own."""
    pipe = Pipe()
    transport = joined(pipe)
    for piece in (b"a", b"b", b"c"):
        transport.write(piece)
    transport.close()
    assert pipe.told == [b"ab", b"c", "closed"]
    assert transport.is_closing()
    cut = Pipe()
    transport = joined(cut)
    transport.write(b"lost")
    transport.abort()
    await asyncio.sleep(0)
    assert cut.told == ["aborted"]
