"""What every event has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in `session_id` at `at` (seconds since the epoch)."""

    kind: ClassVar[str]
    session_id: str
    at: float
