"""Which of the turns that are due a process hands on, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_FIRST_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class _HandedOn:
    next_at: float
    pause: float


class DueTurns:
    """Remembers which sessions were handed on. A turn may be due for long where every worker is
    busy, and a queue keeps what it is sent: the pauses grow.
    """

    def __init__(self) -> None:
        self._handed_on: dict[str, _HandedOn] = {}

    def next(self, sessions: Iterable[str], now: float) -> list[str]:
        """The sessions to hand on now, of those with a turn that is due."""
        handed_on: dict[str, _HandedOn] = {}
        chosen: list[str] = []
        for session_id in sessions:
            last = self._handed_on.get(session_id)
            if last is not None and now < last.next_at:
                handed_on[session_id] = last
                continue
            pause = _FIRST_PAUSE_SECONDS if last is None else 2 * last.pause
            pause = min(pause, _LONGEST_PAUSE_SECONDS)
            handed_on[session_id] = _HandedOn(now + pause, pause)
            chosen.append(session_id)
        # What is not due any more begins anew.
        self._handed_on = handed_on
        return chosen

    def forget(self, session_id: str) -> None:
        """Nobody took it: hand it on again as soon as it is found."""
        self._handed_on.pop(session_id, None)
