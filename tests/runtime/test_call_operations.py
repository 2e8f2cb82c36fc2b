"""Calls without a model, and what is told of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    Gate,
    Json,
    call,
    events,
    first_event,
    host_tool,
    new_session,
    refusal,
    serving,
)
from toolcrib import Limits, Policy, Rule, ToolContext
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.service import as_json
from toolcrib.testing import run_in_virtual_time


async def fail(given: Json, context: ToolContext) -> None:
    raise RuntimeError("boom")


async def forever(given: Json, context: ToolContext) -> None:
    await asyncio.Event().wait()


async def echo(given: Json, context: ToolContext) -> Json:
    return given


TOOLS = [
    host_tool("add"),
    host_tool("fail", fail),
    host_tool("forever", forever, timeout=5),
    host_tool("echo", echo),
    host_tool("rm", echo),
    host_tool("risky", echo, requires_approval=True),
]
POLICY = Policy(rules=(Rule(tool="rm", effect="deny"),), unmatched="allow")


@pytest.mark.parametrize(
    ("name", "arguments", "status", "kind"),
    [
        ("add", {"a": 1, "b": 2}, "completed", None),
        ("fail", {}, "failed", "tool_error"),
        ("forever", {}, "failed", "timeout"),
        ("add", {"a": 1}, "failed", "invalid_arguments"),
        ("add", {"a": 1, "b": "2"}, "failed", "invalid_arguments"),
        ("rm", {}, "failed", "not_permitted"),
        ("nothing", {}, "failed", "not_found"),
        ("risky", {}, "waiting", None),
        ("echo", {"text": "grüße 🧰"}, "completed", None),
    ],
)
def test_every_end_of_a_call_is_told(name: str, arguments: Json, status: str, kind: str) -> None:
    """R36, R37, R45: success, error, time limit, invalid input, denied, unknown, waiting: each is
    a typed result, and plain JSON without a traceback.
    """

    async def work() -> Any:
        async with serving(*TOOLS, policy=POLICY) as runtime:
            return await call(runtime, await new_session(runtime), name, **arguments)

    result = run_in_virtual_time(work())

    assert result.status == status
    assert (result.failure.kind if result.failure else None) == kind
    assert "Traceback" not in json.dumps(as_json(result))
    assert as_json(result)["value"] == result.value


async def test_invalid_input_names_its_place() -> None:
    """R45: every fault has a JSON pointer, and the handler is not called."""
    async with serving(host_tool("add")) as runtime:
        result = await call(runtime, await new_session(runtime), "add", a="1", b=2)

    assert [each.pointer for each in result.failure.faults] == ["/a"]


async def test_large_output_is_kept_whole() -> None:
    """R36: the model's text is cut, the value is whole, and the artifact is there."""

    async def much(given: Json, context: ToolContext) -> Json:
        return {"text": "ß" * given["size"]}

    async with serving(host_tool("much", much)) as runtime:
        result = await call(runtime, await new_session(runtime), "much", size=1_000_000)

    assert result.value["text"] == "ß" * 1_000_000
    assert len(result.text) < 100_000
    assert result.artifact_id is not None


async def test_a_listing_says_all_of_a_tool() -> None:
    """R37: schema, source, scope, version, digest and approval flag."""
    tool = host_tool(
        "add", version="1.2.3", requires_approval=True, is_read_only=True, timeout=3, deprecated="x"
    )
    async with serving(tool) as runtime:
        asked = {"session_id": await new_session(runtime), "name": "add"}
        info = await runtime.ask("tools.info", asked)

    assert (info.source, info.scope, info.place) == ("host", "global", "local")
    assert (info.version, info.digest) == ("1.2.3", tool.digest)
    assert info.parameters["required"] == ["a", "b"]
    assert (info.requires_approval, info.is_read_only, info.timeout) == (True, True, 3)
    assert info.deprecated == "x"


async def test_a_suggestion_names_only_what_the_caller_can_list() -> None:
    """Newcomers B: a misspelt tool is answered with the one that was meant, in the refusal and in
    what a model reads; a tool that this session does not see is never named.
    """

    def for_nobody(context: ToolContext) -> bool:
        return False

    hidden = host_tool("vault", echo, visible_when=for_nobody)
    async with serving(host_tool("stock_level", echo), hidden) as runtime:
        session_id = await new_session(runtime)

        async def messages_about(name: str) -> tuple[str, str]:
            params = {"session_id": session_id, "name": name}
            refused = await refusal(runtime, "tools.info", params)
            return str(refused), (await call(runtime, session_id, name)).text

        near, far = await messages_about("stock_lvl"), await messages_about("vault1")

    assert near[0].endswith("the session has no tool 'stock_lvl'; did you mean 'stock_level'?")
    assert "did you mean 'stock_level'?" in near[1]
    assert "vault'" not in "".join(far).replace("'vault1'", "")
    assert "did you mean" not in "".join(far)


async def test_every_attempt_is_audited() -> None:
    """R46: completed, invalid and unknown calls leave a record with who, over what, and how."""
    who = Principal("bot", frozenset({"caller"}), transport="carrier pigeon")
    async with serving(host_tool("add")) as runtime:
        session_id = await new_session(runtime, who)
        for name, arguments in (("add", {"a": 1, "b": 2}), ("add", {}), ("nothing", {})):
            asked = {"session_id": session_id, "name": name, "arguments": arguments}
            await runtime.ask("tools.call", asked, who)
        records = [each["data"] for each in await events(runtime, session_id, "tool.invoked")]

    assert [each["success"] for each in records] == [True, False, False]
    assert {(each["principal"], each["transport"]) for each in records} == {
        ("bot", "carrier pigeon")
    }
    assert all(each["call_id"] for each in records)


async def test_secrets_are_in_no_event() -> None:
    """R46: a secret argument reaches the handler and no record."""
    secret: Json = {
        "type": "object",
        "properties": {"key": {"type": "string", "writeOnly": True}},
    }

    async def check(given: Json, context: ToolContext) -> bool:
        return given["key"] == "hunter2-and-more"

    async with serving(host_tool("login", check, secret)) as runtime:
        session_id = await new_session(runtime)
        result = await call(runtime, session_id, "login", key="hunter2-and-more")
        told = json.dumps(await events(runtime, session_id))

    assert result.value is True
    assert "hunter2" not in told


async def test_a_tool_calls_the_tools_it_declares() -> None:
    """R48: nested calls are audited with their parent; what is not declared is not permitted."""

    async def outer(given: Json, context: ToolContext) -> list[Any]:
        first = await context.call_tool("add", {"a": 1, "b": 2})
        second = await context.call_tool("rm", {})
        return [first.value, second.ok]

    tools = [host_tool("outer", outer, uses=("add",)), host_tool("add"), host_tool("rm", echo)]
    async with serving(*tools) as runtime:
        session_id = await new_session(runtime)
        result = await call(runtime, session_id, "outer")
        records = [each["data"] for each in await events(runtime, session_id, "tool.invoked")]

    assert result.value == [3, False]
    assert [each["name"] for each in records] == ["add", "rm", "outer"]
    assert {each.get("parent_call_id") for each in records[:2]} == {result.call_id}
    assert records[1]["failure"]["kind"] == "not_permitted"


async def test_a_call_is_cancelled_by_its_id() -> None:
    """R39: while a call runs, the runtime answers others and cancels it when asked."""
    gate = Gate()
    async with serving(host_tool("gate", gate)) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "name": "gate", "call_id": "c1"}
        calling = asyncio.create_task(runtime.ask("tools.call", asked))
        await gate.is_entered.wait()
        facts = await runtime.ask("session.get", {"session_id": session_id})
        one = {"session_id": session_id, "call_id": "c1"}
        first, result = await runtime.ask("tools.cancel", one), await calling
        again = await runtime.ask("tools.cancel", one)

    assert facts.state == "open"
    assert (first.was_running, again.was_running) == (True, False)
    assert result.failure.kind == "cancelled"


async def test_a_call_that_waits_can_be_withdrawn() -> None:
    """R42: cancelling a call that waits resolves its request; it can no longer be approved."""
    async with serving(host_tool("add", requires_approval=True)) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        one = {"session_id": session_id, "call_id": waiting.call_id}
        done = await runtime.ask("tools.cancel", one)
        inbox = await runtime.ask("approvals.list")
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        refused = await refusal(runtime, "approvals.decide", decision)

    assert done.was_running
    assert inbox.approvals == []
    assert refused.kind == "conflict"


async def test_a_waiting_call_is_taken_up_without_its_arguments() -> None:
    """R42: a client that gave the call its id goes on with the id alone; other arguments under it
    are another call, which is refused.
    """
    async with serving(host_tool("add", requires_approval=True)) as runtime:
        one = {"session_id": await new_session(runtime), "name": "add", "call_id": "mine"}
        waiting = await runtime.ask("tools.call", one | {"arguments": {"a": 1, "b": 2}})
        refused = await refusal(runtime, "tools.call", one | {"arguments": {"a": 1, "b": 3}})
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        await runtime.ask("approvals.decide", decision)
        result = await runtime.ask("tools.call", one)

    assert (waiting.status, refused.kind) == ("waiting", "conflict")
    assert (result.call_id, result.value) == ("mine", 3)


async def test_leaving_is_not_cancelling() -> None:
    """Who stops waiting for a call does not stop it."""
    gate = Gate()
    async with serving(host_tool("gate", gate)) as runtime:
        session_id = await new_session(runtime)
        calling = asyncio.create_task(call(runtime, session_id, "gate"))
        await gate.is_entered.wait()
        calling.cancel()
        await asyncio.wait([calling])
        gate.is_open.set()
        event = await first_event(runtime, session_id, "tool.invoked")

    assert calling.cancelled()
    assert not gate.was_cancelled
    assert event.data["success"] is True


OTHER = Principal("bot", frozenset({"admin"}))


async def test_a_running_id_is_a_conflict() -> None:
    """Two calls cannot have one id at a time."""
    gate = Gate()
    async with serving(host_tool("gate", gate)) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "name": "gate", "call_id": "c1"}
        calling = asyncio.create_task(runtime.ask("tools.call", asked))
        await gate.is_entered.wait()
        refused = await refusal(runtime, "tools.call", asked, OTHER)
        gate.is_open.set()
        await calling

    assert refused.kind == "conflict"


async def test_limits_hold() -> None:
    """The runtime's limits bound every call: arguments that are too large are invalid."""
    async with serving(host_tool("echo", echo), limits=Limits(max_arguments_bytes=100)) as runtime:
        result = await call(runtime, await new_session(runtime), "echo", text="x" * 200)

    assert result.failure.kind == "invalid_arguments"
