"""Clients that do not read: cut, so that what waits to be sent to them is held no longer.

What they have missed is in the ledger, and they may come back for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any, Final, cast

STALL_SECONDS: Final = 30.0
"""How long a client may take to read what was sent before anything more is."""

_log = logging.getLogger(__name__)
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class _Served(asyncio.Protocol):
    """What both protocols of uvicorn's have."""

    transport: asyncio.Transport


def impatient(protocol: type[Any], seconds: float) -> type[asyncio.Protocol]:
    """A protocol of uvicorn's that cuts a connection whose buffer stays full for so long."""
    base = cast("type[_Served]", protocol)

    class Impatient(base):
        """Ends the connection when its client has stopped to read."""

        _stalling: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            loop = asyncio.get_running_loop()
            self._stalling = loop.call_later(seconds, cut, self.transport)

        def resume_writing(self) -> None:
            self._patient()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._patient()
            super().connection_lost(exc)

        def _patient(self) -> None:
            if self._stalling is not None:
                self._stalling.cancel()

    return Impatient


def cut(transport: asyncio.Transport) -> None:
    """End a connection now, and let go of all that was to be sent, the kernel's part too."""
    _log.info("a client did not read for too long and was cut")
    own: Any = transport.get_extra_info("socket")
    if own is not None:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
