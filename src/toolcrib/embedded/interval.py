"""When something is to be done now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.clock import Clock


class Interval:
    """Is due when it is first asked, and again once `seconds` have passed. It needs no timer, so
    that nothing wakes up a provider that nobody uses.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next_at: float | None = None

    def is_due(self) -> bool:
        """Whether it is to be done now; whoever is told so does it."""
        now = self._clock()
        if self._next_at is not None and now < self._next_at:
            return False
        self._next_at = now + self._seconds
        return True
