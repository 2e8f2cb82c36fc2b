"""Where sessions live: the `Store` seam, its in-memory twin and the SQLite file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.store.memory import MemoryStore
    from toolcrib.store.sqlite import SqliteStore
    from toolcrib.store.store import Store

__all__ = ["MemoryStore", "SqliteStore", "Store"]

_HOMES = {"MemoryStore": "memory", "SqliteStore": "sqlite", "Store": "store"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
