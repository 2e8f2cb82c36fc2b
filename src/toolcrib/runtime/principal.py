"""Who asks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from toolcrib.errors import Refused

Scope = Literal["read", "call", "approve", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "call", "approve", "admin")


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was let in. `admin` may do everything; the other scopes stand for themselves, so
    who may call need not be allowed to approve.
    """

    name: str
    scopes: frozenset[Scope]
    transport: str | None = None
    """The way they came in, for the audit."""

    def may(self, scope: Scope) -> bool:
        """Whether this scope, or all of them, were given."""
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: Scope, operation: str) -> None:
        """Raise `Refused` (forbidden) without the scope."""
        if not self.may(scope):
            raise Refused(
                "forbidden", f"{operation} needs the scope {scope!r}, which {self.name!r} lacks"
            )


OWNER: Final = Principal("owner", frozenset(SCOPES))
"""The process itself, and whoever holds its token."""
