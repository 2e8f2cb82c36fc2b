"""Asking a store without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from toolcrib.store.store import Store

T = TypeVar("T")


async def ask_store(store: Store, function: Callable[..., T], *args: Any) -> T:
    """Run a function that may touch the store's disk, in a thread if there is a disk."""
    if not store.is_durable:
        return function(*args)
    return await asyncio.to_thread(function, *args)
