"""Who asks for a call: rules judge it, approvers see it, records name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asked for a call, and over what."""

    principal: str | None = None
    """The name of the principal; None when the process itself calls."""
    transport: str | None = None
    is_model: bool = False
    """Whether a model calls, in a prompt of theirs, rather than they themselves."""
    groups: frozenset[str] = frozenset()
    """The groups of the principal when it asked."""


NOBODY: Final = Caller()
"""The process itself: a call that no principal asked for."""
