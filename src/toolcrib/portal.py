"""The portal: runs coroutines on one event loop from blocking code, other threads and other loops.

`anyio.from_thread.BlockingPortal` does not serve here. It must be left by the task that entered
it, but a provider on the caller's own loop is closed by whichever task closes it, and an adapter's
thread must start with its first blocking call and end with the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolcrib.errors import UsageError

T = TypeVar("T")


class Portal:
    """A loop that others reach: `loop`, or one in a daemon thread that starts when it is needed.

    The loop stays between calls, so clients and connections that belong to it can be kept.
    """

    def __init__(
        self, *, loop: asyncio.AbstractEventLoop | None = None, name: str = "toolcrib-portal"
    ) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop = loop
        self._thread: threading.Thread | None = None
        self._can_start = loop is None

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
        """Run `work` and wait for it, in a program without an event loop.

        Raises `UsageError` where a loop runs, because waiting would block it; `instead` names
        what to await there.
        """
        if _running_loop() is not None:
            raise UsageError(f"this blocks, and an event loop runs here; await {instead} instead")
        return self.run_from_thread(work())

    def run_from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and wait for it, in any thread but the loop's own: that raises `UsageError`.

        An interrupted wait cancels the work.
        """
        if _running_loop() is self._loop is not None:
            work.close()
            raise UsageError("this thread runs the loop that it would wait for; use async code")
        future = asyncio.run_coroutine_threadsafe(work, self._open_loop(work))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run_from_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and await it, on any loop. Cancelling the wait cancels the work."""
        if _running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(work, self._open_loop(work))
        )

    def close(
        self,
        last: Callable[[], Coroutine[Any, Any, None]] | None = None,
        *,
        for_good: bool = False,
    ) -> None:
        """Run `last` and end the thread, if one was started. The next call starts another one,
        unless the portal is closed `for_good`.
        """
        with self._lock:
            self._can_start = self._can_start and not for_good
            loop, thread = self._loop, self._thread
            if thread is None or loop is None:
                return
            self._loop = self._thread = None
        if last is not None:
            asyncio.run_coroutine_threadsafe(last(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _open_loop(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None and self._can_start:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            # The loop of a thread that was just started may not run yet, but it will.
            has_loop = self._thread is not None or (self._loop and self._loop.is_running())
            if self._loop is None or not has_loop:
                work.close()
                raise UsageError("the portal is closed, or its event loop does not run any more")
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
