"""Full-text and vector search over the chunks of documents.

Names load their module when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.embedded.search.embedder import Embedder, MiniLmEmbedder
    from toolcrib.embedded.search.index import ChunkMatch, RankWeights, TextIndex

__all__ = [
    "ChunkMatch",
    "Embedder",
    "MiniLmEmbedder",
    "RankWeights",
    "TextIndex",
]

_HOMES = {
    "ChunkMatch": "index",
    "Embedder": "embedder",
    "MiniLmEmbedder": "embedder",
    "RankWeights": "index",
    "TextIndex": "index",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
