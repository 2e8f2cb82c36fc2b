"""How patient a gateway is with its servers, and how soon it tries again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """All in seconds."""

    first: float = 0.5
    """Before the first new attempt; each pause after it is twice as long."""
    most: float = 30.0
    patience: float = 30.0
    """How long connecting, and listing tools, may take."""
    steady: float = 60.0
    """A connection that lasted so long was a good one: its end is the first failure again."""
    relist: float = 0.2
    """The least time between two looks at a server's tools, however often it says they changed."""

    def pause(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return min(self.first * 2 ** min(max(failures - 1, 0), 30), self.most)
