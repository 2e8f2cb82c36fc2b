"""What happened to one mounted server since it was mounted: its state, its faults, and what became
of its tools.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.mcp_client.tool_list import RemoteTools
    from toolcrib.tools.tool import Tool

ServerState = Literal["connected", "connecting", "disconnected", "invalid"]
"""`invalid`: the configuration has a fault, so that no connection is tried."""

MAX_CHANGES: Final = 100
"""So many changes of tools are kept of each server, the newest."""


@dataclass(frozen=True, slots=True)
class RemoteToolChange:
    """A tool that a server added (`old` is None), removed (`new` is None), or changed."""

    at: float
    old: Tool[Any, Any] | None
    new: Tool[Any, Any] | None


class ServerHistory:
    """The history of one server, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.state: ServerState = "connecting"
        self.since = clock()
        """When the server came into its state."""
        self.program: str | None = None
        """What the server said it is when it was last connected."""
        self.connections = 0
        self.failed_attempts = 0
        """Attempts that failed since the last connection."""
        self.last_fault: str | None = None
        self.last_fault_at: float | None = None
        self.next_attempt_at: float | None = None
        self.latency_seconds: float | None = None
        """How long the last list of its tools took."""
        self.last_ping_at: float | None = None
        self.ping_seconds: float | None = None
        """How long the last answer to a ping took."""
        self._changes: deque[RemoteToolChange] = deque(maxlen=MAX_CHANGES)

    @property
    def changes(self) -> tuple[RemoteToolChange, ...]:
        """The changes of its tools after the first list, newest first."""
        return tuple(reversed(self._changes))

    def note_connected(self, program: str | None) -> None:
        """A connection was made and its tools are known."""
        self.connections += 1
        self.failed_attempts = 0
        self.program = program
        self.next_attempt_at = None
        self._enter("connected")

    def note_fault(self, fault: str, *, is_final: bool) -> None:
        """The connection ended, or could not be made; after a final fault none is tried."""
        if self.state != "connected":
            self.failed_attempts += 1
        self.last_fault, self.last_fault_at = fault, self._clock()
        self._enter("invalid" if is_final else "disconnected")

    def note_pause(self, seconds: float) -> None:
        """The next attempt is made after a pause."""
        self.next_attempt_at = self._clock() + seconds

    def note_ping(self, seconds: float) -> None:
        """The server has answered a ping."""
        self.last_ping_at, self.ping_seconds = self._clock(), seconds

    def note_tools(self, old: RemoteTools, new: RemoteTools) -> None:
        """The server has listed its tools. The first list is no change."""
        if self.connections:
            self._compare(old, new)

    def follow(self, earlier: ServerHistory, old: RemoteTools, new: RemoteTools) -> None:
        """The server took the place of another one of its name, which had the tools `old`."""
        self._changes.extend(earlier._changes)
        self._compare(old, new)

    def _compare(self, old: RemoteTools, new: RemoteTools) -> None:
        names: Iterable[str] = dict.fromkeys((*old.served, *new.served))
        for name in names:
            before, after = old.served.get(name), new.served.get(name)
            if before != after:
                self._changes.append(RemoteToolChange(self._clock(), before, after))

    def _enter(self, state: ServerState) -> None:
        if state != self.state:
            self.state, self.since = state, self._clock()
