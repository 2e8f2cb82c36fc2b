"""Agents that are killed, and the sessions that they leave."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.transports.acp.editor import desk
from tests.transports.acp.history import GREETED, history

pytestmark = pytest.mark.crash


async def test_a_session_is_loaded_after_the_agent_was_killed(tmp_path: Path) -> None:
    """SIGKILL in the middle of a prompt loses nothing that was told; what waited was not run."""
    store = ("--store", str(tmp_path / "crib.sqlite3"))
    async with desk("--model", *store) as (at, process):
        session_id = await at.open()
        await at.prompt(session_id, "Greet Ada.")
        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        await at.question()
        process.kill()
        with contextlib.suppress(ConnectionError):
            await turn

    async with desk("--script", "guarded", *store) as (at, _):
        assert await history(at, session_id) == [
            *GREETED,
            ("user_message_chunk", "Greet Bob."),
            ("tool_call", "pending"),
        ]
        assert at.editor.questions.empty()


async def test_a_prompt_that_was_cut_off_goes_on_when_it_is_asked_to(tmp_path: Path) -> None:
    """R42: what waits is asked again, and the prompt goes on with the answer."""
    store = ("--store", str(tmp_path / "crib.sqlite3"))
    async with desk("--script", "guarded", *store) as (at, process):
        session_id = await at.open()
        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        await at.question()
        process.kill()
        with contextlib.suppress(ConnectionError):
            await turn

    async with desk("--script", "thinking", *store) as (at, _):
        await history(at, session_id)
        going_on = asyncio.ensure_future(at.ask("prompt.resume", session_id=session_id))
        (await at.question()).choose("allow")

        assert (await going_on)["status"] == "completed"
        assert at.editor.statuses("call_model_2") == ["pending", "in_progress", "completed"]
