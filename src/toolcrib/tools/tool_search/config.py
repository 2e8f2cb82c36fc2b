"""The options of a search among tools that were not shown to the model: there are none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolSearchConfig:
    """Marks a search that the provider makes, among the tools whose loading is deferred."""


@dataclass(frozen=True, slots=True)
class LocalToolSearchConfig:
    """Marks a search that runs here."""
