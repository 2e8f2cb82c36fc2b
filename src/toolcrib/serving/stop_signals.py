"""The signals that stop a server."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_stop_signals(stop: Callable[[], None]) -> Generator[None]:
    """Call `stop` in the running loop on SIGTERM or SIGINT, for as long as the block lasts.

    A signal that the process ignores stays ignored: shells start background jobs with SIGINT
    ignored, so that Ctrl-C reaches the foreground job alone. Signals reach the main thread only; in
    another thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
