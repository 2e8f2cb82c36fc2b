"""Async code from blocking code: one thread with one event loop, for as long as it is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolcrib.errors import UsageError

T = TypeVar("T")


class Portal:
    """Runs coroutines in a loop of its own, so that clients and connections are kept between
    calls. The thread is a daemon and starts with the first call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Run `work` and wait for it. Inside a running loop that would block it: `instead` is
        what to call there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise UsageError(f"this blocks, and an event loop runs here; await {instead} instead")
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_serve, args=(self._loop,), name="toolcrib-portal", daemon=True
                ).start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
