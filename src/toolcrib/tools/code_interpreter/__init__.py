"""Code interpreter: the model writes code and the provider runs it in a container."""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.citations import GeneratedFile
from toolcrib.tools.code_interpreter.types import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    CodeRun,
    Container,
    DomainSecret,
    ExistingContainer,
    MemoryLimit,
    NetworkPolicy,
)
from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import ConfigFunction, HostedFields, HostedTool, declared_config

__all__ = [
    "DESCRIPTION",
    "KIND",
    "AutoContainer",
    "CodeInterpreterConfig",
    "CodeInterpreterResult",
    "CodeRun",
    "Container",
    "DomainSecret",
    "ExistingContainer",
    "GeneratedFile",
    "MemoryLimit",
    "NetworkPolicy",
    "code_interpreter_tool",
]

KIND: Final = CodeInterpreterConfig.kind
DESCRIPTION: Final = "Run Python code that the model writes, in a sandboxed container."

_NEW_CONTAINER: Final = CodeInterpreterConfig()


def code_interpreter_tool(
    config: CodeInterpreterConfig | ConfigFunction[CodeInterpreterConfig] = _NEW_CONTAINER,
    *,
    name: str = "code_interpreter",
    fallback: AnyFallback[CodeInterpreterConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[CodeInterpreterConfig, CodeInterpreterResult]:
    """Return a code interpreter that the provider runs."""
    return HostedTool[CodeInterpreterConfig, CodeInterpreterResult](
        kind=KIND,
        name=name,
        description=DESCRIPTION,
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )
