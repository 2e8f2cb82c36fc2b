"""Search in text: reading documents, cutting them into chunks, and finding those that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.search.chunks import Chunking
    from toolcrib.embedded.search.embedder import Embedder, MiniLm

__all__ = [
    "Chunking",
    "Embedder",
    "MiniLm",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.search.chunks": ("Chunking",),
            "toolcrib.embedded.search.embedder": ("Embedder", "MiniLm"),
        },
    )
