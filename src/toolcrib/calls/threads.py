"""Sync handlers off the event loop.

Python cannot kill a thread. A handler that outlives its limit is given up: its thread goes on as a
daemon, so it neither keeps the process alive nor occupies a place that other calls need. That is
why this is not `asyncio.to_thread` or an anyio worker, whose threads are joined at exit and hold
their slot until they return.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

IDLE_SECONDS = 10.0
"""How long an idle thread is kept."""


@dataclass(slots=True)
class _ThreadJob:
    run: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class WorkerThreads:
    """Runs functions in daemon threads, reusing idle ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_ThreadJob]] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Start `function(*args)` in a thread, with this task's context variables.

        Cancelling the future gives the thread up; its result is dropped.
        """
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        job = _ThreadJob(lambda: context.run(function, *args), loop.create_future(), loop)
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue[_ThreadJob]()
            threading.Thread(
                target=self._work, args=(inbox,), name="toolcrib-worker", daemon=True
            ).start()
        inbox.put(job)
        return job.future

    def _work(self, inbox: queue.SimpleQueue[_ThreadJob]) -> None:
        while True:
            try:
                job = inbox.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if inbox not in self._idle:
                        # A job is on its way: `submit` took this inbox before the lock was free.
                        continue
                    self._idle.remove(inbox)
                return
            _run(job)
            del job
            with self._lock:
                self._idle.append(inbox)


_shared = WorkerThreads()


def shared_threads() -> WorkerThreads:
    """The threads of this process. Sessions share them: many sessions with a sync call each now and
    then need no more threads than calls that run at the same time.
    """
    return _shared


def _forget_threads() -> None:
    # The threads of the parent are not here, and a job for an idle one of them would never run.
    global _shared
    _shared = WorkerThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _run(job: _ThreadJob) -> None:
    try:
        value, error = job.run(), None
    except BaseException as raised:
        value, error = None, raised
    # A loop that is closed has nobody left to tell.
    with suppress(RuntimeError):
        job.loop.call_soon_threadsafe(_settle, job.future, value, error)


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):
        # A future refuses StopIteration; a handler may still raise it by mistake.
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
