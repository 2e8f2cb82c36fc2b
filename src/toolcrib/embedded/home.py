"""The event loop that a provider lives in, and how others reach it from theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolcrib.errors import UsageError

T = TypeVar("T")


class Home:
    """A loop: the one that runs now, or with `in_thread` one of its own in a thread."""

    def __init__(self, *, in_thread: bool = False) -> None:
        self._thread: threading.Thread | None = None
        if in_thread:
            self.loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_live, args=(self.loop,), name="toolcrib-provider", daemon=True
            )
            is_running = threading.Event()
            self.loop.call_soon(is_running.set)
            self._thread.start()
            is_running.wait()
        else:
            self.loop = asyncio.get_running_loop()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work at home, from whichever loop. Who stops waiting stops it."""
        if _running() is self.loop:
            return await work
        self._check_open(work)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def run_now(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work at home and wait. Raises `UsageError` at home, which would wait for itself."""
        if _running() is self.loop:
            work.close()
            raise UsageError("this thread runs the provider's own loop; use the async client here")
        self._check_open(work)
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        """End the thread, if there is one."""
        if self._thread is None:
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _check_open(self, work: Coroutine[Any, Any, Any]) -> None:
        if self.loop.is_closed() or not self.loop.is_running():
            work.close()
            raise UsageError("the provider is closed, or its event loop does not run")


def _live(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
