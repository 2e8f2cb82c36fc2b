"""A server is told when the process is asked to stop."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from toolcrib.serving.stop_signals import STOP_SIGNALS, on_stop_signals


@pytest.mark.parametrize("number", STOP_SIGNALS)
async def test_either_signal_stops(number: signal.Signals) -> None:
    """SIGTERM and SIGINT call what stops the server, and end nothing else."""
    stopped = asyncio.Event()
    with on_stop_signals(stopped.set):
        os.kill(os.getpid(), number)
        await stopped.wait()


async def test_afterwards_a_signal_is_what_it_was() -> None:
    """Whoever served before takes no signals away from the program."""
    with on_stop_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def test_an_ignored_signal_stays_ignored() -> None:
    """Ctrl-C at the terminal does not stop a server that a script started in the background."""
    stopped: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with on_stop_signals(lambda: stopped.append(True)):
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped == []


async def test_in_another_thread_nothing_is_heard() -> None:
    """Only the main thread can hear signals; serving in another one works without."""

    async def serve() -> str:
        with on_stop_signals(lambda: None):
            return "served"

    assert await asyncio.to_thread(lambda: asyncio.run(serve())) == "served"
