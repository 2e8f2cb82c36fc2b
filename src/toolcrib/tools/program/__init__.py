"""Programs: the model writes code that calls tools, and the provider runs it.

The calls come back like any other: each goes through the executor, its gate and the ledger. A tool
takes part with `FunctionOptions(allowed_callers=("programmatic",))`.
"""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.program.types import ProgramConfig, ProgramParams, ProgramResult
from toolcrib.tools.provider_tools import HostedFields, HostedTool

__all__ = ["KIND", "ProgramConfig", "ProgramParams", "ProgramResult", "program_tool"]

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
