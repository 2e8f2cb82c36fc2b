"""Options, params and results of programs, in words that no provider owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from toolcrib.tools.result import NamedFields


@dataclass(frozen=True, slots=True)
class ProgramConfig:
    """Programs have no options."""

    kind: ClassVar[str] = "program"


@dataclass(frozen=True, slots=True)
class ProgramParams:
    """The code of one program."""

    code: str = ""


@dataclass(frozen=True, slots=True)
class ProgramResult(NamedFields):
    """What a program gave back."""

    code: str = ""
    result: str = ""
    status: str = "completed"
    error: str | None = None

    def render(self) -> str:
        """Return the result, or the error."""
        return self.error or self.result
