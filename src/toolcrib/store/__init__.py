"""Where sessions live: the `Store` seam, its in-memory twin and the SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.prices.table import Prices, read_prices
    from toolcrib.store.call_query import CallQuery, CallRow, UsageSum
    from toolcrib.store.memory import MemoryStore
    from toolcrib.store.postgres.postgres_store import PostgresStore
    from toolcrib.store.retention import Retention
    from toolcrib.store.sqlite import SqliteStore
    from toolcrib.store.store import (
        ApprovalFiled,
        ApprovalState,
        ApprovalUsed,
        Artifact,
        ArtifactKept,
        CallClosed,
        CallOpened,
        Commit,
        CommitSource,
        Effect,
        FiledApproval,
        KeyClaim,
        Lease,
        OpenCall,
        OpenCallState,
        SessionInfo,
        SettingsKept,
        Store,
    )
    from toolcrib.store.verification import verify_session

__all__ = [
    "ApprovalFiled",
    "ApprovalState",
    "ApprovalUsed",
    "Artifact",
    "ArtifactKept",
    "CallClosed",
    "CallOpened",
    "CallQuery",
    "CallRow",
    "Commit",
    "CommitSource",
    "Effect",
    "FiledApproval",
    "KeyClaim",
    "Lease",
    "MemoryStore",
    "OpenCall",
    "OpenCallState",
    "PostgresStore",
    "Prices",
    "Retention",
    "SessionInfo",
    "SettingsKept",
    "SqliteStore",
    "Store",
    "UsageSum",
    "read_prices",
    "verify_session",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.store.call_query": ("CallQuery", "CallRow", "UsageSum"),
            "toolcrib.store.memory": ("MemoryStore",),
            "toolcrib.store.postgres.postgres_store": ("PostgresStore",),
            "toolcrib.prices.table": ("Prices", "read_prices"),
            "toolcrib.store.retention": ("Retention",),
            "toolcrib.store.sqlite": ("SqliteStore",),
            "toolcrib.store.verification": ("verify_session",),
            "toolcrib.store.store": (
                "ApprovalFiled",
                "ApprovalState",
                "ApprovalUsed",
                "Artifact",
                "ArtifactKept",
                "CallClosed",
                "CallOpened",
                "Commit",
                "CommitSource",
                "Effect",
                "FiledApproval",
                "KeyClaim",
                "Lease",
                "OpenCall",
                "OpenCallState",
                "SessionInfo",
                "SettingsKept",
                "SettingsKept",
                "Store",
            ),
        },
    )
