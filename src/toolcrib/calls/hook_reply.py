"""What hooks may return in place of what they got."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refuse:
    """Returned by a hook that comes before something: it does not happen, for this reason. The
    model reads the reason of a refused call.
    """

    reason: str
