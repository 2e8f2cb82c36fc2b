"""The headers of one request that this server looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from toolcrib.errors import Refused

Headers: TypeAlias = "Mapping[bytes, bytes]"

_ONCE: Final = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key")
)


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers by name. One that decides something and comes twice is refused: a proxy may have
    looked at the other one.
    """
    found: dict[bytes, bytes] = {}
    for given, value in raw:
        # Some servers hand over the names of a socket's headers as the client wrote them.
        name = given.lower()
        if name in found and name in _ONCE:
            raise Refused("invalid", f"the header {name.decode('latin-1')} was given twice")
        found[name] = value
    return found


def text_of(headers: Headers, name: bytes) -> str | None:
    """A header as text."""
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def wants_stream(headers: Headers) -> bool:
    """Whether the client asks for events rather than for one JSON answer."""
    return b"text/event-stream" in headers.get(b"accept", b"").lower()
