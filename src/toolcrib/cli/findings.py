"""What a look at the machine found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "absent", "warning", "failure"]
"""`absent` is what nobody has to have."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what to do about it if anything. It holds no secret."""

    name: str
    level: Level
    text: str
