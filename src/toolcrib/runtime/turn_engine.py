"""The seam to what drives turns: PostgreSQL itself, or an engine that a team has already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime


class TurnEngine(Protocol):
    """Calls `Runtime.advance` for the sessions of a shared store whose turns are due, until each
    has ended. The tables say what is due: an engine that lost a wake-up finds the turn there.
    """

    async def start(self, runtime: Runtime) -> None:
        """Begin to drive turns with this runtime."""
        ...

    async def wake(self, session_id: str) -> None:
        """A turn of the session was queued, decided or cancelled: it is due. Does not raise."""
        ...

    async def stop(self) -> None:
        """Take up no more turns: the runtime drains. Those that run go on."""
        ...

    async def close(self) -> None:
        """Let go of everything. The runtime has ended the turns that still ran here."""
        ...
