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
from toolcrib.errors import InvalidHooks, UsageError

logger = logging.getLogger(__name__)

_MISSPELT = 0.8
"""How like a tool's name a wrong one is: "shel" is like "shell", "write_file" not like
"read_file"."""


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


def similar_name(name: str, known: Collection[str], likeness: float = 0.6) -> str | None:
    """The tool whose name is nearest to `name`; None when none is as near as `likeness`, from 0
    to 1.
    """
    folded = {tool.lower(): tool for tool in known}
    nearest = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=likeness)
    return folded[nearest[0]] if nearest else None


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A question for the end of a message about an unknown tool, or nothing."""
    return UnknownName(name, similar_name(name[:128], known)).hint


def check_names(
    setting: str,
    names: Iterable[str],
    known: Collection[str],
    *,
    expected: Collection[str] = (),
    more_may_come: bool = False,
) -> None:
    """Check the names in `setting` against the tools of a runtime.

    `expected` holds names and globs of tools that come later; they need not be known. Raises
    `UsageError` for another unknown name, or logs a warning where more tools may come.
    """
    for unknown in unknown_names(names, known):
        if any(name_matches(glob, unknown.name) for glob in expected):
            continue
        if not more_may_come:
            raise UsageError(
                f"{setting} names {unknown.name!r}, which no tool has{unknown.hint or '.'} "
                "Write the name of a tool, or name tools that come later in expected_tools"
            )
        logger.warning("%s names %r, which no tool has yet%s", setting, unknown.name, unknown.hint)


def check_approval_list(names: Collection[str], known: Collection[str]) -> None:
    """Check an approval list against the tools of one toolset or executor.

    Another toolset may bring a tool that is not `known`, so a name like no other only logs a
    warning. Raises `UsageError` for a misspelt name of a known tool.
    """
    for unknown in unknown_names(names, known):
        meant = similar_name(unknown.name, known, _MISSPELT)
        if meant is not None and meant not in names:
            raise UsageError(
                f"need_user_approve_tools names {unknown.name!r}, which is no tool here; did you "
                f"mean {meant!r}? If another toolset of this context brings it, set the list when "
                "both toolsets are there"
            )
        logger.warning(
            "need_user_approve_tools names %r, which is no tool here; the tools are: %s",
            unknown.name,
            ", ".join(sorted(known)) or "none",
        )


def check_hook_names(names: Iterable[str], known: Collection[str]) -> None:
    """Check the names in hooks against tools that may be more later. Raises `InvalidHooks` for a
    misspelt name of a known tool; another unknown name logs a warning.
    """
    for unknown in unknown_names(names, known):
        meant = similar_name(unknown.name, known, _MISSPELT)
        if meant is not None:
            raise InvalidHooks(
                f"a hook names {unknown.name!r}, which is no tool here; did you mean {meant!r}?"
            )
        logger.warning("a hook names %r, which no tool has yet", unknown.name)
