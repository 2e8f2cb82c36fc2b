"""How a tool's handler is confined, as a definition says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from toolcrib.errors import UsageError
from toolcrib.sandbox.command import Limits

_LIMITS: Final = frozenset(each.name for each in fields(Limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What a confined handler gets besides Python, the installed libraries and its own code."""

    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    readable: tuple[Path, ...] = ()
    """Files and folders that it may read. Modules in such a folder can be imported."""
    network: bool = False
    allow_unconfined: bool = False
    """Whether it may run with limits alone where nothing can confine it."""

    @classmethod
    def of(cls, given: SandboxOptions | Mapping[str, Any] | bool) -> SandboxOptions:
        """The options in any form that a definition has: as they are, a table of options and
        limits, or `True` for the usual ones.
        """
        if isinstance(given, SandboxOptions):
            return given
        if isinstance(given, bool):
            return cls()
        limits = {name: value for name, value in given.items() if name in _LIMITS}
        rest = {name: value for name, value in given.items() if name not in _LIMITS}
        if unknown := rest.keys() - {each.name for each in fields(cls)} | rest.keys() & {"limits"}:
            raise UsageError(f"sandbox has no option {sorted(unknown)[0]!r}")
        readable = tuple(Path(path).absolute() for path in rest.pop("readable", ()))
        return cls(limits=Limits(**limits), readable=readable, **rest)
