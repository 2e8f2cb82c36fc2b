"""Provider-run tools, however they were declared, as the one form that codecs take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.errors import UsageError, WrongProvider
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.image_generation import ImageGenerationConfig
from toolcrib.tools.provider_tools import HostedTool, ProviderTool, kind_of
from toolcrib.tools.shell import ContainerShellConfig
from toolcrib.tools.tool import Tool
from toolcrib.tools.tool_search import ToolSearchConfig
from toolcrib.tools.web_fetch import WebFetchConfig
from toolcrib.tools.web_search import WebSearchConfig


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The configuration of a tool that has none."""


_NO_NAME: Final = re.compile(r"[^a-z0-9_-]")

_DEFAULTS: Final[Mapping[str, Callable[[], Any]]] = {
    "code_interpreter": CodeInterpreterConfig,
    "image_generation": ImageGenerationConfig,
    "shell": ContainerShellConfig,
    "tool_search": ToolSearchConfig,
    "web_fetch": WebFetchConfig,
    "web_search": WebSearchConfig,
}


def as_hosted(tool: Tool[Any, Any], *, provider: str) -> HostedTool[Any]:
    """A `HostedTool` as it is; a `NativeTool` or `ProviderTool` as one of the same name.

    A native tool's capability is its name, and it takes the defaults of that kind. Raises
    `UsageError` for what cannot be offered.
    """
    if isinstance(tool, HostedTool):
        return cast("HostedTool[Any]", tool)
    if isinstance(tool, ProviderTool):
        bound = cast("ProviderTool[Any, Any, Any]", tool)
        check_provider(bound, provider)
        _refuse_mounts(bound)
        return _view(bound, kind_of(bound) or bound.name, bound.config)
    return _view(tool, tool.name, _DEFAULTS.get(tool.name, NoConfig)())


def check_provider(tool: ProviderTool[Any, Any, Any], provider: str) -> None:
    """Refuse a tool that is bound to another provider."""
    if tool.provider != provider:
        raise WrongProvider(
            f"tool {tool.name!r} is for {tool.provider!r}, and this adapter is for {provider!r}; "
            "offer it only where it runs"
        )


def undeclared(kind: str) -> HostedTool[Any]:
    """A stand-in for a tool that the provider ran although nobody offered it, under any name."""
    name = _NO_NAME.sub("_", kind.lower())[:64] or "unknown"
    return HostedTool(kind=kind or name, name=name, description="Run unasked.", config=NoConfig())


def _refuse_mounts(tool: ProviderTool[Any, Any, Any]) -> None:
    """Files that would never arrive must not go unnoticed."""
    if isinstance(tool, OpenAICodeInterpreterTool) and tool.host_mounts:
        raise UsageError(
            f"tool {tool.name!r} has host_mounts, and no folder of the host is allowed; give the "
            "adapter host_roots, or upload the files and give the tool their file_ids"
        )


def _view(tool: Tool[Any, Any], kind: str, config: Any) -> HostedTool[Any]:
    description = tool.description.encode("ascii", "replace").decode()[:200]
    chosen = NoConfig() if config is None else config
    return HostedTool(kind=kind, name=tool.name, description=description, config=chosen)
