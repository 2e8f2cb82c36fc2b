"""A clock that moves only when told to."""

from __future__ import annotations


class FakeClock:
    """Seconds since the epoch, by hand. Pass it wherever a clock is taken."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
