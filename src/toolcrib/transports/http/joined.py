"""A response in one piece: its head waits for its body, and both are one write to the kernel."""

from __future__ import annotations

import asyncio
from typing import Any, cast


class JoinedWrites:
    """A transport that puts together what is written at once. Nothing waits longer than until the
    loop has done what is ready now.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None

    def write(self, data: bytes) -> None:
        """Write, with what was written just before."""
        if self._held is None:
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            held, self._held = self._held, None
            self._transport.write(held + data)

    def close(self) -> None:
        """Close, after what was written."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._held = None
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._transport.write(held)


def joining(protocol: type[Any]) -> type[asyncio.Protocol]:
    """A protocol of uvicorn's whose responses are written in one piece."""
    base = cast("type[asyncio.Protocol]", protocol)

    class Joining(base):
        """Writes through `JoinedWrites`."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            plain = cast("asyncio.Transport", transport)
            joined = JoinedWrites(plain, asyncio.get_running_loop())
            super().connection_made(cast("asyncio.Transport", joined))

    return Joining
