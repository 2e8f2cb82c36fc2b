"""The end of a connection: seen by whoever reads it, told to whoever keeps it."""

from __future__ import annotations

import asyncio


class Gone(Exception):
    """The connection is over; the message says why, if that is known."""


class Ending:
    """Told once, with the reason. `stirred` is set too, for whoever waits for several things."""

    def __init__(self, stirred: asyncio.Event) -> None:
        self.reason = ""
        self.over = asyncio.Event()
        self.hint = ""
        """What may be behind a failure whose own words say little."""
        self._stirred = stirred

    def end(self, reason: str) -> None:
        """The connection is over; the first reason counts."""
        self.reason = self.reason or reason
        self.over.set()
        self._stirred.set()
