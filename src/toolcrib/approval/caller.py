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

    def text(self) -> str:
        """Who asks, for people: `alice (finance), by a model, over http`."""
        groups = f" ({', '.join(sorted(self.groups))})" if self.groups else ""
        way = "by a model" if self.is_model else "directly"
        transport = f", over {self.transport}" if self.transport else ""
        return f"{self.principal or 'this program'}{groups}, {way}{transport}"


NOBODY: Final = Caller()
"""The process itself: a call that no principal asked for."""
