"""The tools that a runtime serves in every session besides those of its registry: of toolsets, with
their hooks, and of the model's provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import DuplicateTool, UsageError
from toolcrib.tools.prepared_tool import PreparedTool, as_tool, prepare

if TYPE_CHECKING:
    from toolcrib.calls.hooks import Hooks
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class ServedTools:
    """The tools of toolsets by name, the hooks around each, and the tools of the provider, which a
    prompt offers and nobody calls here.
    """

    of_toolsets: Mapping[str, Tool[Any, Any]]
    hooks: Mapping[str, Hooks]
    hosted: Mapping[str, PreparedTool]

    @property
    def names(self) -> set[str]:
        """The names of all of them."""
        return {*self.of_toolsets, *self.hosted}

    def wanted(self, is_wanted: Callable[[str], bool]) -> ServedTools:
        """Those of one session."""
        return ServedTools(
            {name: tool for name, tool in self.of_toolsets.items() if is_wanted(name)},
            self.hooks,
            {name: tool for name, tool in self.hosted.items() if is_wanted(name)},
        )


def served_tools(config: RuntimeConfig) -> ServedTools:
    """The served tools of a configuration. Raises `UsageError` for two of one name, for a hosted
    tool that has no provider, and for a toolset that decides by itself.
    """
    of_toolsets: dict[str, Tool[Any, Any]] = {}
    hooks: dict[str, Hooks] = {}
    for toolset in config.toolsets:
        for tool in toolset.served_tools():
            if tool.name in of_toolsets:
                raise DuplicateTool(f"two toolsets of the runtime have a tool {tool.name!r}")
            of_toolsets[tool.name] = tool
            hooks[tool.name] = toolset.served_hooks
    return ServedTools(of_toolsets, hooks, _hosted(config.hosted_tools, of_toolsets))


def _hosted(tools: Sequence[Any], taken: Mapping[str, object]) -> dict[str, PreparedTool]:
    from toolcrib.tools.provider_tools import NativeTool, ProviderTool

    hosted: dict[str, PreparedTool] = {}
    for declared in tools:
        tool = as_tool(declared)
        if not isinstance(tool, NativeTool | ProviderTool):
            raise UsageError(
                f"hosted_tools: {tool.name!r} is no tool of a provider; register it in the host "
                "tool registry"
            )
        if tool.name in hosted or tool.name in taken:
            raise DuplicateTool(f"the runtime has two tools named {tool.name!r}")
        hosted[tool.name] = prepare(cast("Any", tool))
    return hosted
