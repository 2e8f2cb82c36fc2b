"""Options, params and results of a search for tools, in words that no provider owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from toolcrib.tools.result import NamedFields


@dataclass(frozen=True, slots=True)
class ToolSearchConfig:
    """Marks a search by the provider, among tools whose loading is deferred."""

    kind: ClassVar[str] = "tool_search"


@dataclass(frozen=True, slots=True)
class HandlerToolSearchConfig:
    """Marks a search by a handler."""

    kind: ClassVar[str] = "tool_search"


@dataclass(frozen=True, slots=True)
class ToolQuery:
    """What to search for. Words that tools' names and descriptions may have in them."""

    queries: list[str]


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that the model may call from now on."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """Its arguments, as JSON Schema."""
    namespace: str | None = None
    """The group that it belongs to, where tools come in groups."""


@dataclass(frozen=True, slots=True)
class ToolSearchResult(NamedFields):
    """The tools that match."""

    tools: tuple[FoundTool, ...] = ()
    status: str = "completed"
    """`completed`, or how the search ended; of several searches, `completed` when one was."""
    error: str | None = None
    """Why a search failed; of several searches, the first that did."""

    def render(self) -> str:
        """Return the names of the tools."""
        return "\n".join(tool.name for tool in self.tools)
