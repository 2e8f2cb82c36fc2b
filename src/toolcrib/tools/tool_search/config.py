"""The options of a search among tools that were not shown to the model: there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ToolSearchConfig:
    """Marks a search that the provider makes, among the tools whose loading is deferred."""

    kind: ClassVar[str] = "tool_search"


@dataclass(frozen=True, slots=True)
class LocalToolSearchConfig:
    """Marks a search that runs here."""

    kind: ClassVar[str] = "tool_search"
