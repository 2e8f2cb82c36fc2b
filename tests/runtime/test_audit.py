"""Who stands behind a model's calls: the one who asked the prompt, or goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import Json, call, events, host_tool, model, new_session, serving
from toolcrib import Caller, MarkdownSection, Prompt, Session, SqliteStore, ToolContext
from toolcrib.adapters.openai import Governance
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import events as told_of
from toolcrib.runtime.principal import Principal
from toolcrib.store.store import Store
from toolcrib.testing import calls, says
from toolcrib.tools.web_search import web_search_tool

ANN = Principal("ann", frozenset({"admin"}), transport="http")
BOB = Principal("bob", frozenset({"admin"}), transport="websocket")
ADD = {"a": 1, "b": 2}


def who(told: list[Json]) -> list[tuple[Any, Any, Any]]:
    """What was called, and on whose behalf."""
    facts = [each["data"] for each in told]
    return [(each.get("name"), each.get("principal"), each.get("transport")) for each in facts]


async def test_a_models_calls_are_on_behalf_of_who_asked(store: Store) -> None:
    """R46: the record of a call that a model made names who asked the prompt, and over what; so do
    those of the calls within it.
    """

    async def outer(given: Json, context: ToolContext) -> Any:
        return (await context.call_tool("add", ADD)).value

    tools = (host_tool("add"), host_tool("outer", outer, uses=("add",)))
    adapter = model([calls("outer", {})], [says("3")])
    async with serving(*tools, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("prompt.send", {"session_id": session_id, "text": "go"}, ANN)
        invoked = await events(runtime, session_id, "tool.invoked")
        (started,) = await events(runtime, session_id, "prompt.started")

    assert who(invoked) == [("add", "ann", "http"), ("outer", "ann", "http")]
    assert (started["data"]["principal"], started["data"]["transport"]) == ("ann", "http")


async def test_calls_that_the_provider_runs_are_on_behalf_of_who_asked() -> None:
    """R46: what the provider ran for a prompt is on record with who asked it, too."""
    searched: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    searched["action"] = {"type": "search", "query": "saws"}
    task = MarkdownSection(title="Task", key="task", template="Find.", tools=[web_search_tool()])
    session = Session()

    await model([searched, says("found")]).evaluate_async(
        Prompt[str](ns="shop", key="find", sections=[task]),
        session=session,
        governance=Governance(caller=Caller("ann", "http", is_model=True)),
    )

    (ran,) = [each for each in told_of(session.records()) if isinstance(each, ToolInvoked)]
    assert (ran.origin, ran.principal, ran.transport) == ("provider", "ann", "http")


async def test_who_goes_on_with_a_prompt_is_on_record(sqlite_path: Path) -> None:
    """R46: another process goes on for somebody else. The call that waited is still the first
    one's; the calls that follow are the second one's, and the record says who resumed it.
    """
    tools = (host_tool("pay", requires_approval=True), host_tool("add"))
    asked = {"text": "go", "waits": False}
    with SqliteStore(sqlite_path) as store:
        adapter = model([calls("pay", ADD)])
        async with serving(*tools, store=store, adapter=adapter) as runtime:
            session_id = await new_session(runtime)
            await runtime.ask("prompt.send", {"session_id": session_id, **asked}, ANN)
            (waiting,) = (await runtime.ask("approvals.list")).approvals
    with SqliteStore(sqlite_path) as store:
        adapter = model([calls("add", ADD, call_id="call_2")], [says("3")])
        async with serving(*tools, store=store, adapter=adapter) as runtime:
            await runtime.ask("session.resume", {"session_id": session_id})
            decision = {"approval_id": waiting.approval_id, "decision": "approve"}
            await runtime.ask("approvals.decide", decision, BOB)
            result = await runtime.ask("prompt.resume", {"session_id": session_id}, BOB)
            invoked = await events(runtime, session_id, "tool.invoked")
            resumed = await events(runtime, session_id, "prompt.resumed")

    assert result.status == "completed"
    assert who(invoked) == [("pay", "ann", "http"), ("add", "bob", "websocket")]
    assert [each["data"]["principal"] for each in resumed] == ["bob"]
    assert invoked[0]["data"]["decided_by"]["name"] == "bob"


@pytest.mark.parametrize("operation", ["prompt.cancel", "prompt.send"])
async def test_giving_up_a_prompt_leaves_the_calls_of_others(store: Store, operation: str) -> None:
    """R42: with a prompt go the calls that its model made. A call that somebody made meanwhile
    without a model waits on, though both are of one turn and have a principal.
    """
    tool = host_tool("pay", requires_approval=True)
    adapter = model([calls("pay", ADD)], [says("never mind")])
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "text": "go", "waits": False}
        await runtime.ask("prompt.send", asked, ANN)
        mine = await call(runtime, session_id, "pay", a=5, b=5)
        await runtime.ask(
            operation, asked if operation == "prompt.send" else {"session_id": session_id}
        )
        (left,) = (await runtime.ask("approvals.list")).approvals
        (invoked,) = await events(runtime, session_id, "tool.invoked")

    assert mine.status == "waiting"
    assert left.approval_id == mine.approval_id
    assert invoked["data"]["failure"]["kind"] == "cancelled"
