"""Waiting for a descriptor, on whichever event loop."""

from __future__ import annotations

import asyncio


async def readable(descriptor: int) -> None:
    """Wait until there is something to read; a process that ended counts, by its descriptor."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
