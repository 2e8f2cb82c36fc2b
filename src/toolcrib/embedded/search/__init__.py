"""Full-text and vector search over the chunks of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.search.documents import Chunking
    from toolcrib.embedded.search.embedder import Embedder, MiniLmEmbedder
    from toolcrib.embedded.search.index import ChunkMatch, RankWeights, TextIndex

__all__ = [
    "ChunkMatch",
    "Chunking",
    "Embedder",
    "MiniLmEmbedder",
    "RankWeights",
    "TextIndex",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.search.documents": ("Chunking",),
            "toolcrib.embedded.search.embedder": (
                "Embedder",
                "MiniLmEmbedder",
            ),
            "toolcrib.embedded.search.index": (
                "ChunkMatch",
                "RankWeights",
                "TextIndex",
            ),
        },
    )
