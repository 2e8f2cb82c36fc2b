"""Bytes cut into lines."""

from __future__ import annotations


class Lines:
    """Gives the lines of a stream of bytes. Of a line longer than `most_bytes` only so much is kept
    as shows that it is too long.
    """

    def __init__(self, most_bytes: int) -> None:
        self._keep = most_bytes + 1
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that these bytes end; blank ones are left out."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in ended:
            self._add(part)
            lines.append(bytes(self._rest))
            self._rest.clear()
        self._add(rest)
        return [line for line in lines if line.strip()]

    def end(self) -> list[bytes]:
        """What is left when the stream is over."""
        left = bytes(self._rest)
        self._rest.clear()
        return [left] if left.strip() else []

    def _add(self, part: bytes) -> None:
        self._rest += part[: self._keep - len(self._rest)]
