"""Turns on PostgreSQL alone: every replica claims what is due, and the lease is the claim."""

from __future__ import annotations

from toolcrib.runtime.store_engine import StoreEngine


class PostgresEngine(StoreEngine):
    """Drives the turns of a runtime with the PostgreSQL that its store is on. It is what a runtime
    has unless it is given another engine.
    """
