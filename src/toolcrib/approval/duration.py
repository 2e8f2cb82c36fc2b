"""Durations as people write them: 90, "30s", "5m", "1h", "7d"."""

from __future__ import annotations

import math
import re

from toolcrib.errors import InvalidPolicy

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")


def read_duration(written: object) -> float:
    """Return the seconds in a number of seconds or a text with a unit."""
    seconds = _seconds(written)
    if seconds is None or not 0 < seconds < math.inf:
        raise InvalidPolicy(
            f"{written!r} is not a duration; write a number of seconds above 0, or 30s, 5m, 1h, 7d"
        )
    return seconds


def duration_text(seconds: float) -> str:
    """Return a duration in its largest whole unit, rounded up to the second."""
    whole = math.ceil(seconds)
    for unit in ("d", "h", "m"):
        if whole >= _UNITS[unit] and whole % _UNITS[unit] == 0:
            return f"{whole // _UNITS[unit]}{unit}"
    return f"{whole}s"


def _seconds(written: object) -> float | None:
    if isinstance(written, bool):
        return None
    if isinstance(written, int | float):
        return float(written)
    match = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
    return float(match[1]) * _UNITS[match[2]] if match else None
