"""Programs: the model writes code that calls tools, and the provider runs it.

The calls come back like any other: each goes through the executor, its gate and the ledger. A tool
takes part with `FunctionOptions(allowed_callers=("programmatic",))`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Unpack

from toolcrib.tools.provider_tools import HostedFields, HostedTool
from toolcrib.tools.result import NamedFields


@dataclass(frozen=True, slots=True)
class ProgramConfig:
    """Programs have no options."""

    kind: ClassVar[str] = "program"


@dataclass(frozen=True, slots=True)
class Program:
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


KIND: Final = ProgramConfig.kind


def program_tool(
    *, name: str = "program", **fields: Unpack[HostedFields]
) -> HostedTool[ProgramConfig, ProgramResult]:
    """Return the tool that lets the model write programs which call other tools."""
    return HostedTool[ProgramConfig, ProgramResult](
        kind=KIND,
        name=name,
        description="Run a program that the model writes and that calls tools.",
        config=ProgramConfig(),
        **fields,
    )
