"""Tools that the client brings and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    NUMBERS,
    Json,
    call,
    events,
    host_tool,
    model,
    new_session,
    refusal,
    serving,
)
from toolcrib.errors import ClientGone, Refused
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import calls, run_in_virtual_time, says


def client_tool(name: str, **rules: Any) -> Json:
    return {"name": name, "description": f"{name}.", "parameters": NUMBERS, **rules}


class Adding:
    """A client that adds."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        self.asked.append(name)
        return arguments["a"] + arguments["b"]


class Silent:
    """A client that does not answer; with `is_polite` it says that it leaves."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.leaves = asyncio.Event()
        self.was_stopped = False

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        self.is_asked.set()
        try:
            await self.leaves.wait()
        except asyncio.CancelledError:
            self.was_stopped = True
            raise
        raise ClientGone


async def with_tool(runtime: Runtime, **rules: Any) -> str:
    return await new_session(runtime, client_tools=[client_tool("plus", **rules)])


async def test_the_client_runs_what_it_brings() -> None:
    """R49: a tool brought at creation is listed, validated here, run there, and recorded."""
    async with serving() as runtime:
        session_id = await with_tool(runtime)
        link = Adding()
        await runtime.service.attach(session_id, link)
        info = await runtime.ask("tools.info", {"session_id": session_id, "name": "plus"})
        result = await call(runtime, session_id, "plus", a=1, b=2)
        invalid = await call(runtime, session_id, "plus", a=1)
        recorded = await events(runtime, session_id, "tool.invoked")

    assert (info.source, info.place, info.scope) == ("client", "client", "session")
    assert result.value == 3
    assert invalid.failure.kind == "invalid_arguments"
    assert link.asked == ["plus"]
    assert len(recorded) == 2


async def test_a_model_calls_the_clients_tool() -> None:
    """In a prompt, too, the client is asked to run it."""
    adapter = model([calls("plus", {"a": 2, "b": 3})], [says("five")])
    async with serving(adapter=adapter) as runtime:
        session_id = await with_tool(runtime)
        link = Adding()
        await runtime.service.attach(session_id, link)
        answer = await runtime.ask("prompt.send", {"session_id": session_id, "text": "2+3?"})

    assert answer.text == "five"
    assert link.asked == ["plus"]


async def test_the_clients_tools_need_approval_like_others() -> None:
    """A client is not asked to run what nobody has approved."""
    async with serving() as runtime:
        session_id = await with_tool(runtime, requires_approval=True)
        link = Adding()
        await runtime.service.attach(session_id, link)
        result = await call(runtime, session_id, "plus", a=1, b=2)

    assert result.status == "waiting"
    assert link.asked == []


@pytest.mark.parametrize("denied", [[], ["plus"]])
async def test_no_client_shadows_a_tool_of_the_host(denied: list[str]) -> None:
    """R25: the name of a host tool is refused, also of one that the session does not want."""
    asked = {"client_tools": [client_tool("plus")], "denied_tools": denied}
    async with serving(host_tool("plus")) as runtime:
        refused = await refusal(runtime, "session.create", asked)
        left = await runtime.ask("session.list")

    assert refused.kind == "conflict"
    assert "plus" in refused.message
    assert left.sessions == []


async def test_a_host_tool_that_comes_later_does_not_take_the_name() -> None:
    """R25: the client's tool stays; the host's is withheld, with an event."""
    async with serving() as runtime:
        session_id, other = await with_tool(runtime), await new_session(runtime)
        await runtime.registry.register(host_tool("plus"))
        listed = await runtime.ask("tools.list", {"session_id": session_id})
        theirs = await runtime.ask("tools.list", {"session_id": other})
        told = await events(runtime, session_id, "tool.withheld")
        await runtime.registry.unregister("plus")
        after = await runtime.ask("tools.list", {"session_id": session_id})

    assert [each.source for each in listed.tools] == ["client"]
    assert "plus" in listed.unavailable
    assert [each.source for each in theirs.tools] == ["host"]
    assert len(told) == 1
    assert ([each.source for each in after.tools], after.unavailable) == (["client"], {})


async def test_a_bad_tool_of_a_client_is_invalid() -> None:
    """A schema that is none is refused with the tool's name."""
    bad = {**client_tool("plus"), "parameters": {"type": "nonsense"}}
    async with serving() as runtime:
        refused = await refusal(runtime, "session.create", {"client_tools": [bad]})

    assert refused.kind == "invalid"
    assert "plus" in refused.message


async def test_without_its_client_a_tool_is_unavailable() -> None:
    """Before the client is connected, and after it left, calls fail as `unavailable`."""
    async with serving() as runtime:
        session_id = await with_tool(runtime)
        before = await call(runtime, session_id, "plus", a=1, b=2)
        detach = await runtime.service.attach(session_id, Adding())
        detach()
        after = await call(runtime, session_id, "plus", a=1, b=2)

    assert before.failure.kind == after.failure.kind == "unavailable"


@pytest.mark.parametrize("is_polite", [True, False])
async def test_a_client_that_leaves_fails_its_calls(is_polite: bool) -> None:
    """A disconnect in mid-call is a typed error, whether the link tells or is just taken off."""
    async with serving() as runtime:
        session_id = await with_tool(runtime)
        link = Silent()
        detach = await runtime.service.attach(session_id, link)
        calling = asyncio.create_task(call(runtime, session_id, "plus", a=1, b=2))
        await link.is_asked.wait()
        link.leaves.set() if is_polite else detach()
        result = await calling

    assert result.failure.kind == "unavailable"
    assert "disconnected" in result.failure.message
    assert link.was_stopped is not is_polite


async def test_a_client_that_comes_back_takes_over() -> None:
    """A new link runs the calls from now on; what the old one had not answered fails."""
    async with serving() as runtime:
        session_id = await with_tool(runtime)
        old, new = Silent(), Adding()
        detach_old = await runtime.service.attach(session_id, old)
        calling = asyncio.create_task(call(runtime, session_id, "plus", a=1, b=2))
        await old.is_asked.wait()
        await runtime.service.attach(session_id, new)
        failed = await calling
        detach_old()
        result = await call(runtime, session_id, "plus", a=1, b=2)

    assert failed.failure.kind == "unavailable"
    assert result.value == 3


async def test_a_client_brings_its_tools_again() -> None:
    """On resume the client says anew what it brings; a name of the host's is refused."""
    async with serving(host_tool("add")) as runtime:
        session_id = await with_tool(runtime)
        tools = [client_tool("plus"), client_tool("minus")]
        asked = {"session_id": session_id, "client_tools": tools}
        await runtime.ask("session.resume", asked)
        await runtime.ask("session.resume", asked)
        changed = await events(runtime, session_id, "tools.changed")
        shadow = {"session_id": session_id, "client_tools": [client_tool("add")]}
        refused = await refusal(runtime, "session.resume", shadow)

    assert [each["data"]["name"] for each in changed] == ["minus"]
    assert refused.kind == "conflict"


def test_a_client_has_only_so_long() -> None:
    """A client that does not answer in the tool's time is a `timeout`, and is told to stop."""

    async def work() -> tuple[Any, Silent]:
        async with serving() as runtime:
            session_id = await with_tool(runtime, timeout=30)
            link = Silent()
            await runtime.service.attach(session_id, link)
            return await call(runtime, session_id, "plus", a=1, b=2), link

    result, link = run_in_virtual_time(work())

    assert result.failure.kind == "timeout"
    assert link.was_stopped


async def test_what_the_client_raises_is_the_tools_failure() -> None:
    """An error of the client's is a `tool_error` with its message."""

    class Failing:
        async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
            raise ValueError("the editor says no")

    async with serving() as runtime:
        session_id = await with_tool(runtime)
        await runtime.service.attach(session_id, Failing())
        result = await call(runtime, session_id, "plus", a=1, b=2)

    assert result.failure.kind == "tool_error"
    assert "the editor says no" in result.failure.message


ANN = Principal("ann", frozenset({"caller"}))
BOB = Principal("bob", frozenset({"caller"}))
ADMIN = Principal("root", frozenset({"admin"}))
READER = Principal("eve", frozenset({"auditor"}))
APPROVER = Principal("lou", frozenset({"approver"}))


async def brought_by_ann(runtime: Runtime) -> str:
    asked = {"client_tools": [client_tool("plus")]}
    return (await runtime.ask("session.create", asked, ANN)).session_id


@pytest.mark.parametrize(("who", "is_let"), [(ANN, True), (ADMIN, True), (BOB, False)])
async def test_tools_are_run_by_the_client_of_who_brought_them(
    who: Principal, is_let: bool
) -> None:
    """R49: somebody else may not attach as the client: they would see the
    arguments of every call, and models would believe their answers.
    """
    async with serving() as runtime:
        session_id = await brought_by_ann(runtime)
        mine = Adding()
        await runtime.service.attach(session_id, mine, ANN)
        other = Adding()
        if is_let:
            await runtime.service.attach(session_id, other, who)
        else:
            with pytest.raises(Refused) as refused:
                await runtime.service.attach(session_id, other, who)
            assert refused.value.kind == "not_found"
        result = await call(runtime, session_id, "plus", a=1, b=2)

    assert result.value == 3
    assert (mine.asked, other.asked) == (([], ["plus"]) if is_let else (["plus"], []))


async def test_nobody_brings_other_tools_to_anothers_client() -> None:
    """R49: who may not attach may not replace the tools either, and nothing has changed."""
    async with serving() as runtime:
        session_id = await brought_by_ann(runtime)
        tools = [client_tool("plus", requires_approval=False), client_tool("minus")]
        asked = {"session_id": session_id, "client_tools": tools}
        refused = await refusal(runtime, "session.resume", asked, BOB)
        listed = await runtime.ask("tools.list", {"session_id": session_id})

    assert refused.kind == "not_found"
    assert [each.name for each in listed.tools] == ["plus"]


async def test_who_brings_tools_is_not_answered_by_whoever_was_there_first() -> None:
    """R49: a link that was attached when there were no tools is let go when somebody else brings
    some.
    """
    async with serving() as runtime:
        session_id = await new_session(runtime, ANN)
        early = Adding()
        await runtime.service.attach(session_id, early, ADMIN)
        asked = {"session_id": session_id, "client_tools": [client_tool("plus")]}
        await runtime.ask("session.resume", asked, ANN)
        result = await call(runtime, session_id, "plus", a=1, b=2)

    assert result.failure.kind == "unavailable"
    assert early.asked == []


@pytest.mark.parametrize("who", [READER, APPROVER])
async def test_attaching_needs_the_role_of_a_caller(who: Principal) -> None:
    """R49: who may not call may not answer calls."""
    async with serving() as runtime:
        session_id = await new_session(runtime)
        with pytest.raises(Refused, match="requires the role 'caller'") as refused:
            await runtime.service.attach(session_id, Adding(), who)

    assert refused.value.kind == "forbidden"


async def test_following_needs_a_role_that_reads() -> None:
    """R38: who may not read hears no events either."""
    async with serving() as runtime:
        session_id = await new_session(runtime)
        with pytest.raises(Refused, match="requires the role 'caller' or 'auditor'") as refused:
            runtime.service.follow(session_id, who=APPROVER)

    assert refused.value.kind == "forbidden"


async def test_a_tool_of_the_host_may_stand_before_a_clients() -> None:
    """R25: without `override` a host tool of that name is withheld and the client's stays; with it
    the host's takes its place, and the client's comes back when that is gone.
    """
    async with serving() as runtime:
        session_id = await with_tool(runtime)
        link = Adding()
        await runtime.service.attach(session_id, link)

        await runtime.registry.register(host_tool("plus"))
        beside = await runtime.ask("tools.list", {"session_id": session_id})
        await runtime.registry.unregister("plus")
        await runtime.registry.register(host_tool("plus"), override=True)
        before = await runtime.ask("tools.list", {"session_id": session_id})
        await call(runtime, session_id, "plus", a=1, b=2)
        assert link.asked == []
        again = {"session_id": session_id, "client_tools": [client_tool("plus")]}
        await runtime.ask("session.resume", again)
        await runtime.registry.unregister("plus")
        after = await runtime.ask("tools.list", {"session_id": session_id})
        await call(runtime, session_id, "plus", a=1, b=2)

    assert [each.source for each in beside.tools] == ["client"]
    assert "client" in beside.unavailable["plus"]
    assert [(each.source, each.scope) for each in before.tools] == [("host", "global")]
    assert [(each.source, each.scope) for each in after.tools] == [("client", "session")]
    assert (after.unavailable, link.asked) == ({}, ["plus"])
