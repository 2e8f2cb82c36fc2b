"""Codecs for tests of prompts with hosted tools: one that remembers, and ones that refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib import HostedTool
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.web_search import WebSearchConfig


@dataclass(frozen=True, slots=True)
class PlainConfig:
    """Options of a kind that no provider has."""

    level: int = 1


@dataclass(frozen=True, slots=True)
class PlainOutput:
    """What a `RecordingCodec` reads: how many calls there were."""

    calls: int


def plain_tool(kind: str = "dreams", *, name: str = "dream", level: int = 1) -> Any:
    """A hosted tool of a kind that the package does not know."""
    return HostedTool[PlainConfig](
        kind=kind, name=name, description="Dream of sheep.", config=PlainConfig(level)
    )


class RecordingCodec:
    """The least a codec can be. It remembers which items it was shown, one list for each time."""

    def __init__(self, kind: str = "dreams") -> None:
        self.kind = kind
        self.seen: list[list[Any]] = []

    def serialize(self, tool: HostedTool[Any]) -> dict[str, Any]:
        return {"type": self.kind, "level": getattr(tool.config, "level", 0)}

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[Any]
    ) -> PlainOutput | None:
        self.seen.append(list(response_items))
        calls = [item for item in response_items if item.get("type") == f"{self.kind}_call"]
        return PlainOutput(len(calls)) if calls else None


class OneSidedSearchCodec(OpenAIWebSearchCodec):
    """A provider that takes allowed domains or blocked ones, but not both."""

    def serialize(self, tool: HostedTool[WebSearchConfig]) -> dict[str, Any]:
        domains = tool.config.domain_filter
        if domains and domains.allowed and domains.blocked:
            why = "allowed and blocked exclude each other here; give one of them"
            raise UnsupportedOption(self.kind, "domain_filter", "openai", why)
        return super().serialize(tool)
