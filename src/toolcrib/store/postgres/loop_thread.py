"""A thread with an event loop, for a driver that needs one where callers have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolcrib.errors import StoreError

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there and wait for it."""
        if threading.current_thread() is self._thread:
            raise StoreError("the store's own thread cannot wait for itself; use another thread")
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result()

    def stop(self) -> None:
        """End the thread, with whatever still runs in it."""
        if not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.close()
