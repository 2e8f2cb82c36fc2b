"""Bytes in pieces, as a network may deliver them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random


def random_pieces(body: bytes) -> Iterator[bytes]:
    """The bytes in pieces that end anywhere: in the middle of an event, a line or a character. The
    same bytes are always cut alike.
    """
    dice = Random(len(body))
    place = 0
    # Few pieces of long replies: each is a packet.
    longest = max(40, len(body) // 40)
    while place < len(body):
        end = place + dice.randint(1, longest)
        yield body[place:end]
        place = end
