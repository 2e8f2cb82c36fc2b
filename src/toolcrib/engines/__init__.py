"""What drives turns to their end: engines that have `Runtime.advance` called for the sessions of a
store whose turns are due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.engines.postgres_engine import PostgresEngine
    from toolcrib.engines.queue_engine import QueueEngine

__all__ = ["PostgresEngine", "QueueEngine"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.engines.postgres_engine": ["PostgresEngine"],
            "toolcrib.engines.queue_engine": ["QueueEngine"],
        },
    )
