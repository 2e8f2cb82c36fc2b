"""The store that several machines share: PostgreSQL through asyncpg, on a loop of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.store.postgres.postgres_store import PostgresStore

__all__ = ["PostgresStore"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"toolcrib.store.postgres.postgres_store": ("PostgresStore",)}
    )
