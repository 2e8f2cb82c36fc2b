"""Ids that come from models: used again, used at once, or of no use."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import DeferredToolResults, RunContext

from tests.toolsets.agent_bridge.agents import (
    Greet,
    Shell,
    agent_of,
    call,
    commands_run,
    deferred,
    endings,
    run,
    told,
)
from toolcrib.context import AgentContext
from toolcrib.toolsets import Toolset


@pytest.fixture
def ctx(tmp_path: Path) -> AgentContext:
    context = AgentContext(cwd=str(tmp_path))
    context.need_user_approve_tools = ["shell"]
    return context


async def answer(agent: Any, waiting: Any, approval: Any, call_id: str = "c1") -> Any:
    return await agent.run(
        message_history=waiting.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={call_id: approval}),
    )


async def test_two_conversations_wait_under_one_id(ctx: AgentContext, tmp_path: Path) -> None:
    """T44: a yes to one call is none to another that a model gave the same id."""
    toolset = Toolset(ctx, [Shell])
    first = agent_of(toolset, steps=[[call("shell", command="ls")]])
    second = agent_of(toolset, steps=[[call("shell", command="rm")]])
    asked_first, asked_second = await first.run("go"), await second.run("go")
    assert len(ctx.session.approvals.pending()) == 2

    assert told(await answer(second, asked_second, True)) == ("success", "ran rm")
    assert commands_run(tmp_path) == ["rm"]
    assert told(await answer(first, asked_first, True)) == ("success", "ran ls")
    assert commands_run(tmp_path) == ["rm", "ls"]
    first_id, second_id = sorted(call_id for call_id, _ in endings(ctx.session))
    assert (first_id, second_id) == ("c1", f"c1@{asked_second.conversation_id}")


async def test_a_denial_is_of_the_conversation_it_was_given_in(
    ctx: AgentContext, tmp_path: Path
) -> None:
    """T41: it ends one of two calls with the same id, and the other still waits."""
    toolset = Toolset(ctx, [Shell])
    first = agent_of(toolset, steps=[[call("shell", command="ls")]])
    second = agent_of(toolset, steps=[[call("shell", command="rm")]])
    asked_first, asked_second = await first.run("go"), await second.run("go")

    assert told(await answer(second, asked_second, False))[0] == "denied"
    (request,) = ctx.session.approvals.pending()
    assert request.arguments == {"command": "ls"}
    assert told(await answer(first, asked_first, True)) == ("success", "ran ls")


async def test_a_model_that_counts_anew_in_one_conversation(
    ctx: AgentContext, tmp_path: Path
) -> None:
    """T44: an id that comes again is a new call, which is asked about again."""
    steps = [[call("shell", command="ls")], [call("shell", command="rm")]]
    agent = agent_of(Toolset(ctx, [Shell]), steps=steps)
    asked = await agent.run("go")
    again = await answer(agent, asked, True)

    assert deferred(again).approvals[0].args_as_dict() == {"command": "rm"}
    assert commands_run(tmp_path) == ["ls"]
    assert told(await answer(agent, again, True)) == ("success", "ran rm")


async def test_a_call_that_is_given_up_and_made_anew(ctx: AgentContext, tmp_path: Path) -> None:
    """T44: while the first call of an id waits, another call under it is another question."""
    toolset = Toolset(ctx, [Shell])
    for command in ("ls", "rm"):
        agent = agent_of(toolset, steps=[[call("shell", command=command)]])
        asked = await agent.run("go", conversation_id="talk")
    waiting = {request.call_id: request.arguments for request in ctx.session.approvals.pending()}

    assert waiting == {"c1": {"command": "ls"}, "c1@talk": {"command": "rm"}}
    assert told(await answer(agent, asked, True)) == ("success", "ran rm")
    assert commands_run(tmp_path) == ["rm"]


async def test_a_run_without_answers_asks_the_same_question(ctx: AgentContext) -> None:
    """T40: taking up a history whose calls still wait files no second request."""
    agent = agent_of(Toolset(ctx, [Shell]), steps=[[call("shell", command="ls")]])
    asked = await agent.run("go")
    again = await agent.run(message_history=asked.all_messages())

    assert [part.tool_call_id for part in deferred(again).approvals] == ["c1"]
    assert len(ctx.session.approvals.pending()) == 1


async def test_a_history_that_lost_its_conversation(ctx: AgentContext, tmp_path: Path) -> None:
    """T40: the same call with the same arguments is found all the same."""
    agent = agent_of(Toolset(ctx, [Shell]), steps=[[call("shell", command="ls")]])
    asked = await agent.run("go")
    for message in asked.all_messages():
        message.conversation_id = None

    assert told(await answer(agent, asked, True)) == ("success", "ran ls")
    assert commands_run(tmp_path) == ["ls"]


@pytest.mark.parametrize("call_id", ["x" * 300, "tab\there", "\ud800"])
async def test_ids_that_no_store_takes(ctx: AgentContext, tmp_path: Path, call_id: str) -> None:
    """T40: the session gives the call an id of its own, which is the same when it goes on."""
    agent = agent_of(Toolset(ctx, [Shell]), steps=[[call("shell", call_id, command="ls")]])
    asked = await agent.run("go")
    result = await answer(agent, asked, True, call_id)

    assert told(result, call_id) == ("success", "ran ls")
    ((recorded, failure),) = endings(ctx.session)
    assert (recorded.startswith("call_"), failure) == (True, None)


async def test_three_runs_of_one_conversation_at_once() -> None:
    """T21: even then every call has an id of its own."""
    ctx = AgentContext()
    inside = asyncio.Barrier(3)

    class Meet(Greet):
        async def call(self, ctx: RunContext[Any], who: str, times: int = 1) -> str:
            await inside.wait()
            return who

    toolset = Toolset(ctx, [Meet])
    steps = [[call("greet", who="Ada")]]
    results = await asyncio.gather(
        *(run(toolset, *steps, conversation_id="talk") for _ in range(3))
    )

    assert [told(result) for result in results] == [("success", "Ada")] * 3
    ids = [call_id for call_id, _ in endings(ctx.session)]
    assert len(set(ids)) == 3
    assert {"c1", "c1@talk"} < set(ids)


async def test_an_id_may_come_again_once_its_call_is_over() -> None:
    """R46: every attempt is recorded, whatever the model calls it, under an id of its own."""
    ctx = AgentContext()
    steps = [[call("greet", who="Ada")], [call("greet", who="Bob")]]
    result = await run(Toolset(ctx, [Greet]), *steps)

    assert told(result) == ("success", "Hello, Bob.")
    assert endings(ctx.session) == [("c1", None), ("c1#2", None)]


async def test_the_same_call_again_under_the_same_id_runs_again(tmp_path: Path) -> None:
    """R46: a model that has a result and repeats its call, id and all, wants another result."""
    ctx = AgentContext(cwd=str(tmp_path))
    await run(Toolset(ctx, [Shell]), *[[call("shell", command="ls")]] * 3)

    assert commands_run(tmp_path) == ["ls"] * 3
    assert endings(ctx.session) == [("c1", None), ("c1#2", None), ("c1#3", None)]


async def test_a_model_that_counts_anew_is_approved_and_denied_each_time(
    ctx: AgentContext, tmp_path: Path
) -> None:
    """T41, T44: each decision is of the call it was given for, however often the id has come."""
    steps = [[call("shell", command=command)] for command in ("ls", "rm", "df", "du")]
    agent = agent_of(Toolset(ctx, [Shell]), steps=steps)
    waiting = await agent.run("go")
    for approval in (True, False, True):
        waiting = await answer(agent, waiting, approval)
        assert len(ctx.session.approvals.pending()) == 1

    assert told(await answer(agent, waiting, True)) == ("success", "ran du")
    assert commands_run(tmp_path) == ["ls", "df", "du"]
    assert endings(ctx.session) == [
        ("c1", None),
        ("c1#2", "denied"),
        ("c1#3", None),
        ("c1#4", None),
    ]


async def test_a_repeated_id_that_grows_too_long() -> None:
    """T40: an id as long as a store takes has no room for a number, and still names two calls."""
    ctx = AgentContext()
    steps = [[call("greet", "x" * 256, who=who)] for who in ("Ada", "Bob")]
    result = await run(Toolset(ctx, [Greet]), *steps)

    assert told(result, "x" * 256) == ("success", "Hello, Bob.")
    first, second = (call_id for call_id, _ in endings(ctx.session))
    assert (first, second[:5], len(second)) == ("x" * 256, "call_", 37)
