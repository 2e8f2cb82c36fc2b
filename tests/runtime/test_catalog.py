"""The tools of a runtime without a session: all of them, what their calls came to, who sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.host_runtime import BOSS, CALLER, Json, add, host_tool, model, serving
from toolcrib import Policy, RuntimeConfig, ToolContext, create_runtime, tool
from toolcrib.approval import Rule
from toolcrib.errors import Refused
from toolcrib.host_tools import HostToolDefinition, SessionHandler, ToolScope
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store
from toolcrib.tools.web_search import web_search_tool

BOB = Principal("bob", frozenset({"caller"}))


async def fail(given: Json, context: ToolContext) -> str:
    raise ValueError("the shelf is empty")


async def names(runtime: Runtime, who: Principal = BOSS, **params: Any) -> list[str]:
    page = await runtime.as_principal(who).list_catalog(**params)
    return [entry.name for entry in page.tools]


async def play(runtime: Runtime) -> None:
    """The bot adds twice and fails once; bob adds once."""
    for who, calls in ((CALLER, ["add", "add", "broken"]), (BOB, ["add"])):
        operations = runtime.as_principal(who)
        session = await operations.create_session()
        for name in calls:
            await operations.call_tool(session.session_id, name, {"a": 1, "b": 2})


async def test_a_tool_has_the_numbers_of_its_real_calls(store: Store) -> None:
    """What the table shows is what happened: calls, failures, times and the last use."""
    async with serving(host_tool("add"), host_tool("broken", fail), store=store) as runtime:
        await play(runtime)
        page = await runtime.as_principal(BOSS).list_catalog()
        rows = (await runtime.as_principal(BOSS).list_calls(tool="add")).calls

    tools = {entry.name: entry.statistics for entry in page.tools}
    assert page.of_everybody
    assert (tools["add"].calls, tools["add"].failures) == (3, 0)
    assert (tools["broken"].calls, tools["broken"].failures) == (1, 1)
    durations = sorted(row.duration_seconds for row in rows)
    assert (tools["add"].p50_seconds, tools["add"].p95_seconds) == (durations[1], durations[2])
    assert tools["add"].last_used_at == max(row.at for row in rows)


async def test_callers_see_the_numbers_of_their_own_sessions(store: Store) -> None:
    """How often others call a tool is none of a caller's business."""
    async with serving(host_tool("add"), host_tool("broken", fail), store=store) as runtime:
        await play(runtime)
        page = await runtime.as_principal(BOB).list_catalog()

    assert not page.of_everybody
    assert {entry.name: entry.statistics.calls for entry in page.tools} == {"add": 1, "broken": 0}


async def test_the_numbers_are_of_a_time_range(store: Store) -> None:
    """A call outside of the range is not counted."""
    async with serving(host_tool("add"), host_tool("broken", fail), store=store) as runtime:
        await play(runtime)
        [entry] = (await runtime.as_principal(BOSS).list_catalog(search="add", until="1d")).tools

    assert (entry.statistics.calls, entry.statistics.last_used_at) == (0, None)


async def test_statistics_take_one_query_for_all_tools(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of a hundred tools asks the store once."""
    asked: list[str] = []
    sums = store.call_sums

    def counting(query: Any, key: Any) -> Any:
        asked.append(key)
        return sums(query, key)

    monkeypatch.setattr(store, "call_sums", counting)
    many = [host_tool(f"tool_{number}") for number in range(100)]
    async with serving(*many, store=store) as runtime:
        page = await runtime.list_catalog()

    assert (len(page.tools), asked) == (100, ["tool_id"])


async def test_tools_are_searched_filtered_ordered_and_paged(store: Store) -> None:
    """Each page continues after the last; what has no value comes last in both directions."""
    definitions = [host_tool("add"), host_tool("broken", fail), host_tool("idle", category="desk")]
    async with serving(*definitions, store=store) as runtime:
        await play(runtime)
        assert await names(runtime, order="calls", descending=True) == ["add", "broken", "idle"]
        assert (await names(runtime, order="last_used"))[-1] == "idle"
        assert (await names(runtime, order="last_used", descending=True))[-1] == "idle"
        assert await names(runtime, search="DESK") == ["idle"]
        assert await names(runtime, source="mcp:x") == []
        assert await names(runtime, place="provider") == []
        first = await runtime.list_catalog(limit=2)
        rest = await runtime.list_catalog(limit=2, cursor=first.cursor)
        assert [entry.name for entry in (*first.tools, *rest.tools)] == ["add", "broken", "idle"]
        assert (first.total, rest.cursor) == (3, None)
        with pytest.raises(Refused, match="unknown cursor"):
            await runtime.list_catalog(cursor="host/gone")


async def test_withheld_tools_are_listed_with_the_reason() -> None:
    """A tool that nobody gets is not missing without a word."""

    @tool
    def away() -> str:
        """Not now."""
        return ""

    tools = [replace(away.tool, available_when=lambda: False)]
    hosted = [web_search_tool()]
    async with create_runtime(RuntimeConfig(tools=tools, hosted_tools=hosted)) as runtime:
        page = await runtime.list_catalog(withheld=True)
        reasons = {entry.name: entry.withheld for entry in page.tools}
        assert reasons == {
            "away": "it says that it cannot be used now",
            "web_search": "this runtime has no model that could be offered it; set an adapter",
        }
        assert not any(entry.is_callable for entry in page.tools)


async def test_provider_run_tools_are_listed_with_what_the_policy_says_of_them() -> None:
    """Their gate is at declaration time, so the rule in force is about the offer."""
    policy = Policy((Rule("deny", "web_search", principal=("bob",), id="not bob"),), "allow")
    config = RuntimeConfig(hosted_tools=[web_search_tool()], adapter=model(), policy=policy)
    async with create_runtime(config) as runtime:
        [mine] = (await runtime.list_catalog(place="provider")).tools
        [bobs] = (await runtime.as_principal(BOB).list_catalog(place="provider")).tools

    assert (mine.withheld, mine.rule.effect, mine.is_callable) == (None, "allow", False)
    assert (bobs.rule.effect, bobs.rule.rule) == ("deny", "not bob")
    assert bobs.withheld is not None
    assert bobs.rule_for_others.effect == "allow"
    assert bobs.depends_on == ["principal"]


async def test_a_tool_with_a_condition_is_hidden_from_callers_without_it() -> None:
    """What one tenant's sessions have is not told to another; an auditor sees all."""

    def is_for_team(context: ToolContext) -> bool:
        return context.metadata.get("team") == "red"

    async with serving(host_tool("secret", visible_when=is_for_team)) as runtime:
        bob = runtime.as_principal(BOB)
        assert (await bob.list_catalog()).tools == []
        with pytest.raises(Refused) as refused:
            await bob.get_catalog_tool("secret")
        assert refused.value.kind == "not_found"
        with pytest.raises(Refused):
            await bob.explain_policy("secret")
        [entry] = (await runtime.as_principal(BOSS).list_catalog()).tools
        assert entry.visibility.is_conditional

        await bob.create_session(metadata={"team": "red"})

        assert [entry.name for entry in (await bob.list_catalog()).tools] == ["secret"]


async def test_visibility_says_which_sessions_have_a_tool() -> None:
    """A tool that needs a client's capability, and one that each session makes, say so."""

    def make(context: ToolContext) -> SessionHandler:
        return SessionHandler(add)

    own = HostToolDefinition(
        "own", "Own.", {"type": "object"}, scope=ToolScope.SESSION, factory=make
    )
    async with serving(own, host_tool("canvas", requires=("canvas",))) as runtime:
        canvas, own_entry = (await runtime.list_catalog()).tools

    assert (canvas.visibility.requires, canvas.is_callable) == (["canvas"], False)
    assert (own_entry.visibility.is_per_session, own_entry.place) == (True, "local")


async def test_one_tool_has_schema_digest_and_parts() -> None:
    """The digest is that of the session's tool, and its parts say what it covers."""
    async with serving(host_tool("add")) as runtime:
        detail = await runtime.get_catalog_tool("add")
        session = await runtime.create_session()
        facts = await runtime.get_tool(session.session_id, "add")
        with pytest.raises(Refused, match="did you mean 'add'") as refused:
            await runtime.get_catalog_tool("ad")

    assert refused.value.kind == "not_found"
    assert detail.parameters == facts.parameters
    assert detail.entry.digest == facts.digest
    assert detail.parts["name"] == "add"


async def test_another_configuration_shows_at_once() -> None:
    """After a reload the rule in force is that of the new policy."""
    async with serving(host_tool("add")) as runtime:
        [before] = (await runtime.list_catalog()).tools
        policy = Policy((Rule("deny", "add", id="never"),))
        runtime.reconfigure(RuntimeConfig(policy=policy))
        [after] = (await runtime.list_catalog()).tools

    assert (before.rule.effect, after.rule.effect, after.rule.rule) == ("allow", "deny", "never")
