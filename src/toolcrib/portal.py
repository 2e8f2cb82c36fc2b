"""Async code from blocking code: one thread with one event loop, for as long as it is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
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
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
        """Run `work` and wait for it. Inside a running loop that would block it: `instead` is
        what to call there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UsageError(f"this blocks, and an event loop runs here; await {instead} instead")
        future = asyncio.run_coroutine_threadsafe(work(), self._started())
        try:
            return future.result()
        except BaseException:
            # Whoever was interrupted while waiting is not to leave the work running.
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the thread, after `last`. Nothing happens when it never started."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(last(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="toolcrib-portal", daemon=True
                )
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
