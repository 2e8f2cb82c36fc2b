"""Stop texts: the provider ends an answer before the first of them, whatever the backend does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from toolcrib.embedded.backend import BackendOutput, BackendText


async def until_stop(
    pieces: AsyncIterator[BackendOutput], stop: tuple[str, ...]
) -> AsyncIterator[BackendOutput]:
    """Pass pieces on until their text contains a stop text; what follows is not read."""
    held = _HeldText(stop)
    async for piece in pieces:
        if isinstance(piece, BackendText):
            if text := held.add(piece.text):
                yield replace(piece, text=text)
            if held.is_stopped:
                if isinstance(pieces, AsyncGenerator):
                    await pieces.aclose()
                return
        else:
            if text := held.rest():
                yield BackendText(text)
            yield piece
    if text := held.rest():
        yield BackendText(text)


class _HeldText:
    """Holds the end of a text back while it may be the beginning of a stop text."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop = stop
        self._text = ""
        self.is_stopped = False

    def add(self, text: str) -> str:
        """Append text; returns what can be shown."""
        self._text += text
        ends = [at for each in self._stop if (at := self._text.find(each)) >= 0]
        self.is_stopped = bool(ends)
        end = min(ends) if ends else len(self._text) - self._possible_start()
        shown, self._text = self._text[:end], self._text[end:]
        return shown

    def rest(self) -> str:
        """What is held back, at the end of the text."""
        text, self._text = self._text, ""
        return text

    def _possible_start(self) -> int:
        """How many of the last characters may be the beginning of a stop text."""
        longest = max(map(len, self._stop)) - 1
        for count in range(min(longest, len(self._text)), 0, -1):
            if any(each.startswith(self._text[-count:]) for each in self._stop):
                return count
        return 0
