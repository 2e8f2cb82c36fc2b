"""Turns on a Temporal server. Needs the extra `temporal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.engines.temporal.engine import TemporalEngine
    from toolcrib.engines.temporal.options import TemporalOptions, TemporalTls

__all__ = ["TemporalEngine", "TemporalOptions", "TemporalTls"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.engines.temporal.engine": ["TemporalEngine"],
            "toolcrib.engines.temporal.options": ["TemporalOptions", "TemporalTls"],
        },
    )
