"""File search: the provider searches files in its vector stores."""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.citations import FileCitation
from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.file_search.types import (
    Comparison,
    Compound,
    FileFilter,
    FileSearchConfig,
    FileSearchHit,
    FileSearchQuery,
    FileSearchResult,
    HybridWeights,
    Ranking,
)
from toolcrib.tools.provider_tools import ConfigFunction, HostedFields, HostedTool, declared_config

__all__ = [
    "KIND",
    "Comparison",
    "Compound",
    "FileCitation",
    "FileFilter",
    "FileSearchConfig",
    "FileSearchHit",
    "FileSearchQuery",
    "FileSearchResult",
    "HybridWeights",
    "Ranking",
    "file_search_tool",
]

KIND: Final = FileSearchConfig.kind


def file_search_tool(
    config: FileSearchConfig | ConfigFunction[FileSearchConfig],
    *,
    name: str = "file_search",
    fallback: AnyFallback[FileSearchConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[FileSearchConfig, FileSearchResult]:
    """Return a search of these vector stores. There is no default: without a store there is nothing
    to search.
    """
    return HostedTool[FileSearchConfig, FileSearchResult](
        kind=KIND,
        name=name,
        description="Search uploaded files for relevant passages and cite them.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )
