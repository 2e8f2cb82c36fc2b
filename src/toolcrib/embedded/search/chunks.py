"""Cutting a text into overlapping chunks at the places where it pauses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CHARACTERS_PER_TOKEN: Final = 4
_PAUSES: Final = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?])\s+"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Chunking:
    """How long a chunk is at most, and how much of it the next one repeats, in tokens."""

    most_tokens: int = 800
    overlap_tokens: int = 400


DEFAULT: Final = Chunking()


def chunks_of(text: str, chunking: Chunking = DEFAULT) -> Iterator[str]:
    """The chunks of a text, in order. None is empty."""
    most = chunking.most_tokens * CHARACTERS_PER_TOKEN
    overlap = chunking.overlap_tokens * CHARACTERS_PER_TOKEN
    start = 0
    while start < len(text):
        end = _end(text, start, most)
        piece = text[start:end].strip()
        if piece:
            yield piece
        if end >= len(text):
            return
        start = max(_beginning(text, end - overlap, end), start + 1)


def _end(text: str, start: int, most: int) -> int:
    """The last good place to stop within the second half of what a chunk may hold."""
    if start + most >= len(text):
        return len(text)
    for pause in _PAUSES:
        stops = [found.end() for found in pause.finditer(text, start + most // 2, start + most)]
        if stops:
            return stops[-1]
    return start + most


def _beginning(text: str, wanted: int, end: int) -> int:
    """Where a sentence begins after the wanted place, or else a word."""
    for pause in _PAUSES[2:]:
        found = pause.search(text, max(wanted, 0), end)
        if found is not None and found.end() < end:
            return found.end()
    return end
