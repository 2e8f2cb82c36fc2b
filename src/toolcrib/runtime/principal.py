"""Principals: who sends a request, which roles they have, and to which groups they belong."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from toolcrib.approval.caller import Caller
from toolcrib.errors import Refused, UsageError

Role = Literal["caller", "approver", "auditor", "admin"]

OWNER_NAME: Final = "owner"
LOCAL_NAME: Final = "local"
RESERVED_NAMES: Final = frozenset({OWNER_NAME, LOCAL_NAME})
"""The names of the process's own principals, which nobody else may have."""

ROLES: Final[tuple[Role, ...]] = ("caller", "approver", "auditor", "admin")


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated person or program.

    A `caller` makes sessions, and does and reads everything of its own. An `approver` sees and
    decides the approvals that are routed to it. An `auditor` reads everything and changes nothing.
    An `admin` has every role, over everybody's objects.
    """

    name: str
    roles: frozenset[Role]
    groups: frozenset[str] = frozenset()
    transport: str | None = None
    """The transport of the request, for the audit."""
    may_approve_own: bool = False
    """Whether it may decide about its own calls; otherwise somebody else has to."""

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("a principal needs a name")
        is_local = self.name == LOCAL_NAME and self.transport == "mcp"
        if self.name in RESERVED_NAMES and "admin" not in self.roles and not is_local:
            raise UsageError(
                f"no principal may have the name {self.name!r}: it is that of the process itself"
            )

    def may(self, role: Role) -> bool:
        """Whether the principal has this role, or `admin`."""
        return role in self.roles or "admin" in self.roles

    def check(self, roles: Collection[Role], operation: str) -> None:
        """Raise `Refused` (forbidden) without one of the roles."""
        if "admin" not in self.roles and self.roles.isdisjoint(roles):
            raise Refused(
                "forbidden",
                f"{operation} requires the role {' or '.join(map(repr, roles))}, "
                f"which {self.name!r} does not have",
            )

    @property
    def sees_all(self) -> bool:
        """Whether it may read what belongs to others."""
        return "auditor" in self.roles or "admin" in self.roles

    def caller(self, *, is_model: bool = False) -> Caller:
        """The principal as the records of its calls name it."""
        return _caller(self.name, self.transport, is_model, self.groups)


# A server has few principals and many calls.
_caller: Final = lru_cache(maxsize=256)(Caller)

OWNER: Final = Principal(OWNER_NAME, frozenset({"admin"}), may_approve_own=True)
"""The process itself, and the holder of its token."""
