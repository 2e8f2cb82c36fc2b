"""Audiences: to whom a tool is shown. For everybody else it is not there."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from toolcrib.errors import InvalidTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """The principals of these names, and the members of these groups. `*` stands for any text and
    `?` for a character. A call that no principal asked for has no audience.
    """

    principals: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.principals and not self.groups:
            raise InvalidTool("an audience needs principals or groups; nobody would see the tool")

    def includes(self, principal: str | None, groups: Collection[str]) -> bool:
        """Whether a principal, who belongs to these groups, sees the tool."""
        if principal is None:
            return False
        return any(_matches(glob, principal) for glob in self.principals) or any(
            _matches(glob, group) for glob in self.groups for group in groups
        )


def _matches(glob: str, name: str) -> bool:
    return glob in ("*", name) or _pattern(glob).fullmatch(name) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    # Repeated stars would let a match take long.
    parts = re.split(r"(\*+|\?)", glob)
    wild = {"*": "(?s:.*)", "?": "(?s:.)"}
    return re.compile("".join(wild.get(part[:1], re.escape(part)) for part in parts))
