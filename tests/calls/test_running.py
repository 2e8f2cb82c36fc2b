"""Calls that run now, as the session knows them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib import Executor, Session, ToolContext, tool
from toolcrib.errors import UsageError
from toolcrib.toolsets import BaseTool


async def test_a_session_is_not_exported_while_a_call_runs() -> None:
    """T49: an export in the middle of a call would forget it, so it is refused."""
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "done"

    session = Session()
    running = asyncio.create_task(Executor(session, [slow]).call("slow", call_id="c1"))
    await begun.wait()

    with pytest.raises(UsageError, match="calls are running: c1"):
        session.export_state()

    go.set()
    await running
    assert session.export_state().session_id == session.session_id


def test_a_text_in_place_of_the_approval_list_is_refused() -> None:
    """T38: a list that would be taken letter by letter would ask about nothing."""
    with pytest.raises(UsageError, match=r"write \['shell'\]"):
        Session(need_user_approve_tools="shell")


async def test_an_instance_of_a_tool_class_is_a_tool() -> None:
    """Tools written as classes work in an executor without a toolset."""

    class Echo(BaseTool):
        name = "echo"
        description = "Say it again."

        async def call(self, ctx: ToolContext, text: str) -> Any:
            return text

    outcome = await Executor(Session(), [Echo()]).call("echo", {"text": "hi"})

    assert outcome.text == "hi"
