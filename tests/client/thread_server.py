"""A real server in a thread of its own, for programs that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import served


@contextmanager
def served_in_thread(**options: Any) -> Generator[str]:
    """The address of a server with the tools of `served_runtime`; the options are its own."""
    started, ended = threading.Event(), asyncio.Event()
    loop, urls = asyncio.new_event_loop(), list[str]()

    async def serve() -> None:
        async with served(**options) as crib:
            urls.append(crib.server.url)
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(PATIENCE)
        loop.close()
