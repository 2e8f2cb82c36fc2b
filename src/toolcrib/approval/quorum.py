"""How many people have to approve a call, and from which groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from toolcrib.errors import InvalidPolicy

MAX_APPROVERS: Final = 20


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many different people have to approve, and from which groups. An admin counts as a
    member of every group; no groups means every approver.
    """

    count: int = 1
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not 1 <= self.count <= MAX_APPROVERS:
            raise InvalidPolicy(f"{self.count} approvers; write a number from 1 to {MAX_APPROVERS}")
        if any(not group.strip() for group in self.groups):
            raise InvalidPolicy("an empty group; write its name, or leave the groups out")
        object.__setattr__(self, "groups", tuple(sorted(set(self.groups))))


def quorum_text(quorum: Quorum) -> str:
    """A quorum in words: `2 of finance`."""
    who = " or ".join(quorum.groups) if quorum.groups else "all approvers"
    return f"{quorum.count} of {who}"
