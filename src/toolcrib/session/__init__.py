"""A session and its one ledger; everything else is a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.session.bus import EventBus
    from toolcrib.session.reducers import Reducers
    from toolcrib.session.session import Session
    from toolcrib.session.state import ResumableState

__all__ = [
    "EventBus",
    "Reducers",
    "ResumableState",
    "Session",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.session.bus": ("EventBus",),
            "toolcrib.session.reducers": ("Reducers",),
            "toolcrib.session.session": ("Session",),
            "toolcrib.session.state": ("ResumableState",),
        },
    )
