"""Provider-run tools, however they were declared, as the one form that codecs take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from toolcrib.errors import PromptEvaluationError
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.hosted import HostedTool
from toolcrib.tools.provider import ProviderTool
from toolcrib.tools.tool import Tool
from toolcrib.tools.web_search import WebSearchConfig


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The configuration of a tool that has none."""


def as_hosted(tool: Tool[Any, Any], *, provider: str, prompt_name: str) -> HostedTool[Any]:
    """A `HostedTool` as it is; a `NativeTool` or `ProviderTool` as one of the same name.

    A native tool's capability is its name, and it takes the defaults of that kind.
    """
    if isinstance(tool, HostedTool):
        return cast("HostedTool[Any]", tool)
    if isinstance(tool, ProviderTool):
        bound = cast("ProviderTool[Any, Any, Any]", tool)
        if bound.provider != provider:
            raise PromptEvaluationError(
                f"tool {bound.name!r} is for {bound.provider!r}, and this adapter is for "
                f"{provider!r}; offer it only where it runs",
                prompt_name=prompt_name,
                phase="render",
            )
        return _view(bound, _kind_of(bound), bound.config)
    return _view(tool, tool.name, _default_config(tool.name))


def undeclared(kind: str) -> HostedTool[Any]:
    """A stand-in for a tool that the provider ran although nobody offered it."""
    return HostedTool(
        kind=kind, name=kind.replace(".", "_")[:64], description="Run unasked.", config=NoConfig()
    )


def _kind_of(tool: ProviderTool[Any, Any, Any]) -> str:
    is_interpreter = isinstance(tool.config, CodeInterpreterConfig)
    return "code_interpreter" if is_interpreter else tool.name


def _view(tool: Tool[Any, Any], kind: str, config: Any) -> HostedTool[Any]:
    description = tool.description.encode("ascii", "replace").decode()[:200]
    return HostedTool(
        kind=kind, name=tool.name, description=description, config=config or NoConfig()
    )


def _default_config(kind: str) -> Any:
    match kind:
        case "web_search":
            return WebSearchConfig()
        case "code_interpreter":
            return CodeInterpreterConfig()
        case _:
            return NoConfig()
