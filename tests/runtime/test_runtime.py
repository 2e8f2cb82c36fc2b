"""Operations in the task of whoever asks, for transports that cancel none of their tasks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runtime.host_runtime import Gate, host_tool, new_session, serving
from toolcrib.errors import Refused, UsageError
from toolcrib.host_tools import host_tool_registry
from toolcrib.runtime.runtime import Runtime, create_runtime


def call_of(session_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"session_id": session_id, "name": name, "arguments": arguments}


async def told(runtime: Runtime, name: str, params: Any) -> tuple[str, str]:
    """The refusal of an operation that is asked here."""
    with pytest.raises(Refused) as refused:
        await runtime.ask_inline(name, params)
    return refused.value.kind, refused.value.message


async def test_the_answer_is_the_same() -> None:
    """With or without a task of its own, an operation has the same answer and the same refusals."""
    async with serving(host_tool("add")) as runtime:
        params = call_of(await new_session(runtime), "add", a=1, b=2)

        apart, here = (
            await runtime.ask("tools.call", params),
            await runtime.ask_inline("tools.call", params),
        )

        assert (here.status, here.value) == (apart.status, apart.value) == ("completed", 3)
        assert (await told(runtime, "tools.call", {}))[0] == "invalid"
        assert (await told(runtime, "no.such", {}))[0] == "not_found"


async def test_closing_waits_for_it() -> None:
    """What runs in the task of whoever asks is drained like anything else."""
    gate = Gate()
    async with serving(host_tool("gate", gate), drain_seconds=60) as runtime:
        asking = runtime.ask_inline("tools.call", call_of(await new_session(runtime), "gate"))
        calling = asyncio.create_task(asking)
        await gate.is_entered.wait()
        closing = asyncio.create_task(runtime.close())
        await asyncio.sleep(0)
        gate.is_open.set()
        await closing

    assert (await calling).value == "through"


async def test_a_closed_session_ends_the_call_and_not_the_task() -> None:
    """Whoever asks is told that the session was closed, and goes on uncancelled."""
    gate, left = Gate(), list[int]()
    async with serving(host_tool("gate", gate)) as runtime:
        session_id = await new_session(runtime)

        async def asking() -> tuple[str, str]:
            refusal = await told(runtime, "tools.call", call_of(session_id, "gate"))
            task = asyncio.current_task()
            assert task is not None
            left.append(task.cancelling())
            return refusal

        calling = asyncio.create_task(asking())
        await gate.is_entered.wait()
        await runtime.ask("session.close", {"session_id": session_id})

        assert (await calling)[0] == "closing"
        assert left == [0]
        assert gate.was_cancelled


async def test_a_runtime_belongs_to_the_loop_that_it_was_started_in() -> None:
    """Its sessions wait in that loop; asked elsewhere, it could cancel somebody else's task."""
    async with create_runtime() as runtime:

        async def ask() -> None:
            await runtime.ask("runtime.capabilities")

        with pytest.raises(UsageError, match="event loop"):
            await asyncio.to_thread(asyncio.run, ask())


async def test_a_runtime_serves_the_default_registry() -> None:
    """F13: what a program adds there is a tool of every runtime that names no other registry."""
    with host_tool_registry.borrowed():
        host_tool_registry.add(host_tool("everywhere"))
        async with create_runtime() as runtime, serving(host_tool("own")) as other:
            listed = await runtime.ask("tools.list", {"session_id": await new_session(runtime)})
            others = await other.ask("tools.list", {"session_id": await new_session(other)})

    assert [tool.name for tool in listed.tools] == ["everywhere"]
    assert [tool.name for tool in others.tools] == ["own"]
    assert host_tool_registry.list_tools() == []
