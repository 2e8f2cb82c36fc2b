"""A runtime that cannot count on the lease of a session stops what runs in it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Final

import pytest

from tests.runtime.host_runtime import Gate, SlowModel, call, host_tool, new_session, serving
from toolcrib import SqliteStore
from toolcrib.errors import Refused
from toolcrib.ledger.events import CallInDoubt
from toolcrib.ledger.record import events

LEASE_SECONDS: Final = 6.0
"""Renewed after a third of it, and lost without a renewal only when the machine stands still for
the whole of it.
"""
BY_ITSELF: Final = "could not be renewed in time"
"""What the log says of a lease that was lost although nobody took it."""


def take_over(path: Path) -> None:
    """What another process does that becomes the writer."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE sessions SET fence = fence + 1, holder = NULL")
    connection.close()


async def test_a_call_in_a_session_that_was_taken_over_ends(
    sqlite_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The renewal finds out; the handler is cancelled, the caller is told, the session is closed
    here, and the next writer finds the call in doubt.
    """
    gate, store = Gate(), SqliteStore(sqlite_path, lease_seconds=LEASE_SECONDS)
    async with serving(host_tool("gate", gate), store=store) as runtime:
        session_id = await new_session(runtime)
        calling = asyncio.create_task(call(runtime, session_id, "gate"))
        await gate.is_entered.wait()
        await asyncio.to_thread(take_over, sqlite_path)
        refused = (await asyncio.gather(calling, return_exceptions=True))[0]
        assert isinstance(refused, Refused)
        assert refused.kind in ("conflict", "closing")

        resumed = await runtime.ask("session.resume", {"session_id": session_id})
        assert resumed.session_id == session_id
    found = [type(event) for event in events(store.records(session_id))]
    store.close()

    assert CallInDoubt in found
    assert BY_ITSELF not in caplog.text


async def test_a_turn_in_a_session_that_was_taken_over_ends(
    sqlite_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A prompt whose model is asked is given up: somebody else asks it now."""
    slow, store = SlowModel(), SqliteStore(sqlite_path, lease_seconds=LEASE_SECONDS)
    async with serving(store=store, adapter=slow.adapter()) as runtime:
        session_id = await new_session(runtime)
        params = {"session_id": session_id, "text": "how many?"}
        prompt = asyncio.create_task(runtime.ask("prompt.send", params))
        await slow.is_asked.wait()
        await asyncio.to_thread(take_over, sqlite_path)
        await slow.is_left.wait()
        await asyncio.gather(prompt, return_exceptions=True)
    store.close()

    assert BY_ITSELF not in caplog.text
