"""A stream that is looked through before pydantic-ai reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any


class Watched:
    """A stream whose pieces each become any number of pieces. It is closed as pydantic-ai's are."""

    def __init__(self, stream: Any, pieces: Callable[[Any], Iterable[Any]]) -> None:
        self.source = stream.source
        self._stream = stream
        self._pieces = pieces

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for each in self._stream:
            for piece in self._pieces(each):
                yield piece
