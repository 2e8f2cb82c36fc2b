"""Principals: who sends a request, and which scopes they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from toolcrib.errors import Refused

Scope = Literal["read", "call", "approve", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "call", "approve", "admin")


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated person or program. `admin` includes every scope; the other scopes are
    independent, so a principal that may call need not be allowed to approve.
    """

    name: str
    scopes: frozenset[Scope]
    transport: str | None = None
    """The transport of the request, for the audit."""

    def may(self, scope: Scope) -> bool:
        """Whether the principal has this scope, or `admin`."""
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: Scope, operation: str) -> None:
        """Raise `Refused` (forbidden) without the scope."""
        if not self.may(scope):
            raise Refused(
                "forbidden",
                f"{operation} requires the scope {scope!r}, which {self.name!r} does not have",
            )


OWNER: Final = Principal("owner", frozenset(SCOPES))
"""The process itself, and the holder of its token."""
