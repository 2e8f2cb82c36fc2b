"""The server name in the first record of a TLS connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_HELLO: Final = 16_384
_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 0x01
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_ENCRYPTED_HELLO: Final = 0xFE0D


def read_server_name(record: bytes) -> str | None:
    """The host that a client asks for; None when the record is no whole client hello, names none,
    or may name another one where it cannot be read (an encrypted client hello).
    """
    try:
        names = [_host(data) for kind, data in _extensions(record) if kind == _SERVER_NAME]
        kinds = [kind for kind, _ in _extensions(record)]
    except (IndexError, ValueError):
        return None
    if len(names) != 1 or _ENCRYPTED_HELLO in kinds:
        return None
    return names[0]


def _extensions(record: bytes) -> Iterator[tuple[int, bytes]]:
    """The extensions of a client hello, by their numbers. Raises `ValueError`, `IndexError`."""
    if record[0] != _HANDSHAKE:
        raise ValueError("no handshake")
    message = _Bytes(record[5:])
    if message.number(1) != _CLIENT_HELLO:
        raise ValueError("no client hello")
    hello = _Bytes(message.sized(3))
    hello.take(2 + 32)
    for size in (1, 2, 1):
        # The session, the ciphers and the compressions.
        hello.sized(size)
    extensions = _Bytes(hello.sized(2))
    while extensions.left:
        yield extensions.number(2), extensions.sized(2)


def _host(data: bytes) -> str:
    names = _Bytes(_Bytes(data).sized(2))
    if names.number(1) != _HOST_NAME:
        raise ValueError("no host name")
    name = names.sized(2)
    if names.left:
        raise ValueError("several names")
    return name.decode("ascii")


class _Bytes:
    """Reads a structure from its start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise ValueError("too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def sized(self, size: int) -> bytes:
        """Data that follows its length."""
        return self.take(self.number(size))
