"""The event loop that a provider lives in."""

from __future__ import annotations

import asyncio
import time

import pytest

from toolcrib.embedded import home as home_module
from toolcrib.embedded.home import Home


def test_a_loop_in_a_thread_runs_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late the thread is scheduled, work is taken at once."""
    live = vars(home_module)["_live"]

    def start_late(loop: asyncio.AbstractEventLoop) -> None:
        time.sleep(0.05)
        live(loop)

    monkeypatch.setattr(home_module, "_live", start_late)
    home = Home(in_thread=True)
    try:
        assert home.run_now(asyncio.sleep(0, "done")) == "done"
    finally:
        home.close()
