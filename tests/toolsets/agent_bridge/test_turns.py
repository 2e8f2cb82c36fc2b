"""Agent runs as turns of the session."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolResults, RunContext, ToolCallPart

from tests.toolsets.agent_bridge.agent_process import SESSION, answer, ask
from tests.toolsets.agent_bridge.agents import (
    Greet,
    Shell,
    agent_of,
    call,
    deferred,
    invocations,
    run,
    scripted,
    told,
)
from toolcrib import Session, SqliteStore
from toolcrib.context import AgentContext
from toolcrib.ledger.events import TurnStarted
from toolcrib.testing import Recorder
from toolcrib.toolsets import BaseTool, Toolset


def turns(session: Session) -> list[tuple[str, int]]:
    return [(each.call_id, each.turn) for each in invocations(session)]


async def test_each_prompt_is_a_turn() -> None:
    """R46: the record of a call says which turn it belongs to, over all toolsets of a session."""
    ctx = AgentContext()
    recorder = Recorder(ctx.session.bus)

    class Wave(Greet):
        name = "wave"

    both = [call("greet", "c1", who="Ada"), call("wave", "c2", who="Ada")]
    agent = agent_of(
        Toolset(ctx, [Greet]),
        Toolset(ctx, [Wave]),
        steps=[both, [call("greet", "c3", who="Bob")], "one", [call("wave", "c4", who="Eve")]],
    )
    first = await agent.run("go")
    await agent.run("go on", message_history=first.all_messages())

    assert sorted(turns(ctx.session)) == [("c1", 1), ("c2", 1), ("c3", 1), ("c4", 2)]
    assert [event.turn for event in recorder.of(TurnStarted)] == [1, 2]


async def test_invalid_calls_belong_to_their_turn_too() -> None:
    """R46: also what never ran."""
    ctx = AgentContext()
    await run(Toolset(ctx, [Greet]), [ToolCallPart("greet", "{}", "c1")])

    assert turns(ctx.session) == [("c1", 1)]


async def test_runs_at_once_are_turns_of_their_own() -> None:
    """R46: parallel conversations are told apart."""
    ctx = AgentContext()
    toolset = Toolset(ctx, [Greet])
    steps = [[call("greet", "c1", who="Ada")], [call("greet", "c2", who="Bob")]]
    results = await asyncio.gather(*(run(toolset, *steps) for _ in range(3)))

    by_turn: dict[int, set[str | None]] = {}
    for each in invocations(ctx.session):
        by_turn.setdefault(each.turn, set()).add(each.principal)
    assert sorted(by_turn) == [1, 2, 3]
    assert all(len(conversations) == 1 for conversations in by_turn.values())
    assert len({result.conversation_id for result in results}) == 3


async def test_an_answer_goes_on_with_the_turn(tmp_path: Path) -> None:
    """R46: approving is no prompt; what follows from it belongs to the turn that asked."""
    ctx = AgentContext(cwd=str(tmp_path))
    ctx.need_user_approve_tools = ["shell"]
    steps = [[call("shell", "c1", command="ls")], [call("greet", "c2", who="Ada")]]
    agent = agent_of(Toolset(ctx, [Shell, Greet]), steps=steps)
    waiting = await agent.run("go")
    await run(Toolset(ctx, [Greet]), [call("greet", "other", who="Bob")])
    await agent.run(
        message_history=waiting.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
    )

    assert turns(ctx.session) == [("other", 2), ("c1", 1), ("c2", 1)]


async def test_an_answer_in_another_process_does_too(tmp_path: Path) -> None:
    """R46: the call that waited knows its turn."""
    await ask(tmp_path)
    await answer(tmp_path, '{"approvals": {"c1": true}}')

    async with await Session.open(SqliteStore(tmp_path / "desk.db"), SESSION) as session:
        assert turns(session) == [("c1", 1)]
        assert session.last_turn == 1


async def test_an_agent_that_a_tool_runs() -> None:
    """C8: its turn is linked to the tool's call, and its calls may wait: the tool is told."""
    ctx = AgentContext()
    ctx.need_user_approve_tools = ["shell"]
    inner = agent_of(
        Toolset(ctx, [Shell, Greet]),
        steps=[[call("greet", "i1", who="Ada"), call("shell", "i2", command="ls")]],
    )

    class Delegate(BaseTool):
        name = "delegate"
        description = "Ask another agent"

        async def call(self, ctx: RunContext[Any]) -> str:
            waiting = deferred(await inner.run("go", deps=ctx.deps))
            return f"waits: {waiting.approvals[0].tool_call_id}"

    result = await Agent(scripted([call("delegate")]), toolsets=[Toolset(ctx, [Delegate])]).run(
        "go"
    )

    assert told(result) == ("success", "waits: i2")
    inside, outside = invocations(ctx.session)
    assert (inside.call_id, inside.turn, inside.parent_call_id) == ("i1", 2, "c1")
    assert (outside.call_id, outside.turn, outside.parent_call_id) == ("c1", 1, None)


async def test_sessions_are_let_go() -> None:
    """R27: nothing that counts turns keeps a session alive."""
    ctx = AgentContext()
    session = weakref.ref(ctx.session)
    await run(Toolset(ctx, [Greet]), [call("greet", who="Ada")])
    del ctx
    gc.collect()

    assert session() is None
