"""Names of tools in settings: denied tools, approval lists, hooks and policy rules.

A name that no tool has protects nothing. Where all tools are known it is an error; where more may
come, it is a warning, and an error only if a known tool has nearly the same name.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from toolcrib.approval.globs import name_matches
from toolcrib.errors import UsageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name, or a glob, that fits no tool, and the tool that was probably meant."""

    name: str
    similar: str | None

    @property
    def hint(self) -> str:
        """A question for the end of a message, or nothing."""
        return f"; did you mean {self.similar!r}?" if self.similar is not None else ""


def unknown_names(names: Iterable[str], known: Collection[str]) -> tuple[UnknownName, ...]:
    """The names and globs that fit none of the `known` tools."""
    return tuple(
        UnknownName(name, similar_name(name, known))
        for name in dict.fromkeys(names)
        if not any(name_matches(name, tool) for tool in known)
    )


def similar_name(name: str, known: Collection[str]) -> str | None:
    """The tool whose name is nearest to `name`; None when none is near."""
    folded = {tool.lower(): tool for tool in known}
    nearest = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[nearest[0]] if nearest else None


def check_approval_list(names: Collection[str], known: Collection[str]) -> None:
    """Check an approval list against the tools of one toolset or executor.

    Another toolset may bring a tool that is not `known`, so a name like no other only logs a
    warning. Raises `UsageError` for a name that is nearly that of a known tool.
    """
    for unknown in unknown_names(names, known):
        if unknown.similar is not None and unknown.similar not in names:
            raise UsageError(
                f"need_user_approve_tools names {unknown.name!r}, which is no tool here"
                f"{unknown.hint} If another toolset of this context brings it, set the list when "
                "both toolsets are there"
            )
        logger.warning(
            "need_user_approve_tools names %r, which is no tool here; the tools are: %s",
            unknown.name,
            ", ".join(sorted(known)) or "none",
        )
