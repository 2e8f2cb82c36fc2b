"""The host's tools in live sessions: there at once, kept up to date, let go at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.runtime.host_runtime import (
    Json,
    add,
    call,
    events,
    host_tool,
    kinds,
    model,
    new_session,
    refusal,
    scripted,
    serving,
)
from toolcrib import Hooks, Refuse, ToolContext
from toolcrib.host_tools import HostToolDefinition, SessionHandler, ToolScope
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import ScriptedOpenAI, calls, says


async def names(runtime: Runtime, session_id: str) -> list[str]:
    listed = await runtime.ask("tools.list", {"session_id": session_id})
    return [each.name for each in listed.tools]


def counting(log: list[str]) -> HostToolDefinition:
    """A tool whose every session has its own handler."""

    def make(context: ToolContext) -> SessionHandler:
        log.append(f"made {context.session_id} in {context.cwd}")

        def handle(given: Json, context: ToolContext) -> str:
            return context.session_id

        return SessionHandler(handle, lambda: log.append(f"closed {context.session_id}"))

    return HostToolDefinition(
        "own", "Own.", {"type": "object"}, scope=ToolScope.SESSION, factory=make
    )


async def test_registered_tools_show_in_every_live_session() -> None:
    """R15: a tool registered later is there in all sessions, with one `tools.changed` in each."""
    async with serving() as runtime:
        sessions = [await new_session(runtime), await new_session(runtime)]
        await runtime.registry.register(host_tool("late"))
        found = [await names(runtime, each) for each in sessions]
        told = [await events(runtime, each, "tools.changed") for each in sessions]
        result = await call(runtime, sessions[0], "late", a=1, b=2)

    assert found == [["late"], ["late"]]
    assert [len(each) for each in told] == [1, 1]
    assert result.value == 3


async def test_unregistered_tools_are_not_found() -> None:
    """R15: a call of a removed tool fails as not_found, and the session goes on."""
    async with serving(host_tool("add")) as runtime:
        session_id = await new_session(runtime)
        await runtime.registry.unregister("add")
        result = await call(runtime, session_id, "add", a=1, b=2)
        told = await events(runtime, session_id, "tools.changed")
        info = await refusal(runtime, "tools.info", {"session_id": session_id, "name": "add"})

    assert (result.status, result.failure.kind) == ("failed", "not_found")
    assert [each["data"]["new"] for each in told] == [None]
    assert info.kind == "not_found"


async def test_a_replaced_tool_is_told_with_both_versions() -> None:
    """R50: `tools.changed` names the old and the new version, and calls run the new one."""

    async def multiply(given: Json, context: ToolContext) -> int:
        return given["a"] * given["b"]

    async with serving(host_tool("add", version="1.0.0")) as runtime:
        session_id = await new_session(runtime)
        await runtime.registry.register_or_replace(host_tool("add", multiply, version="2.0.0"))
        result = await call(runtime, session_id, "add", a=3, b=4)
        told = (await events(runtime, session_id, "tools.changed"))[0]["data"]
        info = await runtime.ask("tools.info", {"session_id": session_id, "name": "add"})

    assert result.value == 12
    assert (told["old"]["version"], told["new"]["version"]) == ("1.0.0", "2.0.0")
    assert info.version == "2.0.0"


async def test_any_thread_may_register() -> None:
    """R11, R15: a registration in another thread reaches the sessions of this loop."""
    async with serving() as runtime:
        session_id = await new_session(runtime)
        thread = threading.Thread(target=lambda: runtime.registry.add(host_tool("late")))
        thread.start()
        thread.join()

        assert await names(runtime, session_id) == ["late"]


async def test_a_tool_of_one_session_is_nowhere_else() -> None:
    """R14: it is listed and callable there alone, and dropped when the session closes."""
    async with serving() as runtime:
        mine, other = await new_session(runtime), await new_session(runtime)
        own = host_tool("own", add, scope=ToolScope.SESSION)
        await runtime.registry.register(own, session_id=mine)
        listed = await runtime.ask("tools.info", {"session_id": mine, "name": "own"})
        result = await call(runtime, other, "own", a=1, b=1)
        theirs = (await names(runtime, other), await kinds(runtime, other))
        await runtime.ask("session.close", {"session_id": mine})
        left = runtime.registry.get("own", session_id=mine)

    assert listed.scope == "session"
    assert result.failure.kind == "not_found"
    assert theirs == ([], ["session.opened", "session.settings_saved", "tool.invoked"])
    assert left is None


async def test_a_shadowed_tool_comes_back() -> None:
    """R14: a session's own tool stands before its namesake for all, which comes back when it is
    gone; other sessions notice nothing.
    """

    async def mine(given: Json, context: ToolContext) -> str:
        return "mine"

    async with serving(host_tool("add")) as runtime:
        one, other = await new_session(runtime), await new_session(runtime)
        own = host_tool("add", mine, scope=ToolScope.SESSION)
        await runtime.registry.register(own, session_id=one, override=True)
        before = await call(runtime, one, "add", a=1, b=2)
        scoped = await runtime.ask("tools.info", {"session_id": one, "name": "add"})
        await runtime.registry.unregister("add", session_id=one)
        after = await call(runtime, one, "add", a=1, b=2)
        info = await runtime.ask("tools.info", {"session_id": one, "name": "add"})
        theirs = await events(runtime, other, "tools.changed")

    assert (before.value, scoped.scope) == ("mine", "session")
    assert (after.value, info.scope) == (3, "global")
    assert theirs == []


async def test_a_factory_makes_one_handler_for_each_session() -> None:
    """R14: called once per session, with its context; closed on delete and on shutdown."""
    log: list[str] = []
    async with serving(counting(log)) as runtime:
        for session_id in ("s", "t"):
            await new_session(runtime, session_id=session_id, cwd="/there")
            for _ in range(2):
                assert (await call(runtime, session_id, "own")).value == session_id
        await runtime.ask("session.delete", {"session_id": "s"})
        assert log == ["made s in /there", "made t in /there", "closed s"]

    assert log[3:] == ["closed t"]


async def test_a_tool_that_cannot_be_mounted_is_told() -> None:
    """R24: the session opens without it, lists it with the reason and has an event of it."""

    def fail(context: ToolContext) -> Callable[..., object]:
        raise RuntimeError("no licence")

    broken = HostToolDefinition(
        "broken", "Broken.", {"type": "object"}, scope=ToolScope.SESSION, factory=fail
    )
    async with serving(broken, host_tool("add")) as runtime:
        session_id = await new_session(runtime)
        listed = await runtime.ask("tools.list", {"session_id": session_id})
        told = await events(runtime, session_id, "tool.withheld")
        info = await refusal(runtime, "tools.info", {"session_id": session_id, "name": "broken"})

    assert [each.name for each in listed.tools] == ["add"]
    assert "no licence" in listed.unavailable["broken"]
    assert told[0]["data"]["tool"]["name"] == "broken"
    assert "no licence" in info.message


async def test_tools_that_need_more_of_the_client_are_withheld() -> None:
    """R49: unmet requirements are listed with the reason; a client that can do more gets them."""
    async with serving(host_tool("ask", requires=("elicitation",))) as runtime:
        session_id = await new_session(runtime)
        before = await runtime.ask("tools.list", {"session_id": session_id})
        asked = {"session_id": session_id, "capabilities": ["elicitation"]}
        await runtime.ask("session.resume", asked)
        after = await runtime.ask("tools.list", {"session_id": session_id})
        changed = await events(runtime, session_id, "tools.changed")

    assert (before.tools, list(before.unavailable)) == ([], ["ask"])
    assert ([each.name for each in after.tools], after.unavailable) == (["ask"], {})
    assert len(changed) == 1


async def test_categories_are_listed_and_filtered() -> None:
    """R47: `category` shows in the listing, and a listing can be of one category."""
    async with serving(host_tool("add", category="maths"), host_tool("rm")) as runtime:
        asked = {"session_id": await new_session(runtime), "category": "maths"}
        listed = await runtime.ask("tools.list", asked)

    assert [(each.name, each.category) for each in listed.tools] == [("add", "maths")]


async def test_a_session_has_no_tool_that_was_not_wanted() -> None:
    """`allowed_tools` and `denied_tools` hold for tools that come later as well."""
    async with serving(host_tool("a"), host_tool("b")) as runtime:
        some = await new_session(runtime, allowed_tools=["a", "late"], expected_tools=["late"])
        most = await new_session(runtime, denied_tools=["a", "late"], expected_tools=["l*"])
        await runtime.registry.register(host_tool("late"))
        found = [await names(runtime, each) for each in (some, most)]

    assert found == [["a", "late"], ["b"]]


async def test_a_tool_removed_in_a_turn_is_gone_at_once() -> None:
    """R15: a model that calls a tool removed in mid-turn is told not_found, and answers."""

    async def drop(given: Json, context: ToolContext) -> str:
        await runtime.registry.unregister("add")
        return "dropped"

    script = ScriptedOpenAI(
        [calls("drop", call_id="c1")],
        [calls("add", {"a": 1, "b": 2}, call_id="c2")],
        [says("done")],
    )
    tools = [host_tool("drop", drop), host_tool("add")]
    async with serving(*tools, adapter=scripted(script)) as runtime:
        session_id = await new_session(runtime)
        answer = await runtime.ask("prompt.send", {"session_id": session_id, "text": "go"})
        invoked = await events(runtime, session_id, "tool.invoked")

    assert answer.text == "done"
    assert [each["data"]["success"] for each in invoked] == [True, False]
    assert invoked[1]["data"]["failure"]["kind"] == "not_found"


async def test_a_tool_added_in_a_turn_shows_in_the_next() -> None:
    """R15: tools are pinned per turn; what is added is offered with the next prompt."""

    async def grow(given: Json, context: ToolContext) -> str:
        await runtime.registry.register(host_tool("late"))
        return "grown"

    script = ScriptedOpenAI([calls("grow")], [says("one")], [says("two")])
    async with serving(host_tool("grow", grow), adapter=scripted(script)) as runtime:
        session_id = await new_session(runtime)
        for text in ("first", "second"):
            await runtime.ask("prompt.send", {"session_id": session_id, "text": text})

    offered = [[tool["name"] for tool in request["tools"]] for request in script.requests]
    assert offered == [["grow"], ["grow"], ["grow", "late"]]


async def test_hooks_hold_for_tools_that_come_later() -> None:
    """A hook of an expected tool is no error, and holds once the tool is there."""

    async def refuse(context: object, arguments: Json) -> Refuse:
        return Refuse("not today")

    config: Json = {"hooks": Hooks(pre={"late": refuse}), "expected_tools": ["late"]}
    async with serving(host_tool("add"), **config) as runtime:
        session_id = await new_session(runtime)
        await runtime.registry.register(host_tool("late"))
        result = await call(runtime, session_id, "late", a=1, b=2)

    assert result.failure.kind == "not_permitted"


async def test_hooks_hold_in_prompts_too() -> None:
    """A model's call meets the same hooks as a call without a model."""
    seen: list[str] = []

    async def watch(context: object, name: str, arguments: Json) -> Json:
        seen.append(name)
        return arguments

    adapter = model([calls("add", {"a": 1, "b": 2})], [says("3")])
    async with serving(host_tool("add"), adapter=adapter, hooks=Hooks(global_pre=watch)) as runtime:
        session_id = await new_session(runtime)
        await call(runtime, session_id, "add", a=1, b=2)
        await runtime.ask("prompt.send", {"session_id": session_id, "text": "go"})

    assert seen == ["add", "add"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_waiting_call_does_not_run_another_version(is_open: bool) -> None:
    """R50: what was approved was one version of a tool; after a change the call is unavailable."""
    async with serving(host_tool("add", version="1.0.0", requires_approval=True)) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        if not is_open:
            await runtime.ask("session.close", {"session_id": session_id})
        new = host_tool("add", version="2.0.0", requires_approval=True)
        await runtime.registry.register_or_replace(new)
        if not is_open:
            await runtime.ask("session.resume", {"session_id": session_id})
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        await runtime.ask("approvals.decide", decision)
        asked = {"session_id": session_id, "name": "add", "call_id": waiting.call_id}
        result = await runtime.ask("tools.call", asked)
        told = await events(runtime, session_id, "tool.unavailable")

    assert result.failure.kind == "unavailable"
    assert len(told) == 1
