"""Telemetry of a runtime: calls over a real HTTP server, and prompts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runtime.host_runtime import SlowModel, model
from tests.telemetry.memory_collector import Collected, Labels, attributes, is_failed, labels
from tests.transports.http.served_runtime import Served, served
from toolcrib import Executor, Session, SqliteStore, tool
from toolcrib.calls.outcome import Limits
from toolcrib.errors import LeaseLost
from toolcrib.testing import calls, says

PROMPT = "invoke_agent session:prompt"
AGENT = "session:prompt"


@pytest.fixture
def collected() -> Collected:
    return Collected()


async def post(it: Served, path: str, **body: Any) -> Any:
    answer = await it.client.post(f"/v1/sessions/s/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_metric_of_a_tool_over_http(collected: Collected) -> None:
    """R43: calls, errors by class, durations, calls in flight and approvals, each by tool."""
    async with served(on_session=collected.watch) as it:
        await it.session()
        await post(it, "tools/echo/call", arguments={"text": "a"})
        await post(it, "tools/broken/call", arguments={"text": "a"})
        await post(it, "tools/echo/call", arguments={"text": 1})
        await post(it, "tools/nobody/call", arguments={})
        waiting = await post(it, "tools/careful/call", arguments={"text": "b"})
        held = asyncio.create_task(post(it, "tools/held_back/call", arguments={"text": "c"}))
        await it.gates.entered.wait()
        active = collected.counts("toolcrib.call.active")
        it.gates.open.set()
        await held
        approval = f"/v1/approvals/{waiting['approval_id']}/decide"
        decided = await it.client.post(approval, json={"decision": "approve"})
        assert decided.status_code == 200, decided.text
        again = {"arguments": {"text": "b"}, "call_id": waiting["call_id"]}
        await post(it, "tools/careful/call", **again)

    echo, broken, careful = labels(tool="echo"), labels(tool="broken"), labels(tool="careful")
    held_back, other = labels(tool="held_back"), labels(tool="_OTHER")
    assert collected.counts("toolcrib.calls") == {
        echo: 2,
        broken: 1,
        careful: 1,
        held_back: 1,
        other: 1,
    }
    assert collected.counts("toolcrib.call.errors") == {
        labels(tool="broken", error="tool_error"): 1,
        labels(tool="echo", error="invalid_arguments"): 1,
        labels(tool="_OTHER", error="not_found"): 1,
    }
    assert {key: count for key, (count, _) in collected.durations().items()} == {
        echo: 1,
        labels(tool="broken", error="tool_error"): 1,
        careful: 1,
        held_back: 1,
    }
    assert active[held_back] == 1
    assert set(collected.counts("toolcrib.call.active").values()) == {0}
    assert collected.counts("toolcrib.approval.requests") == {careful: 1}
    assert collected.counts("toolcrib.approval.decisions") == {
        labels(tool="careful", decision="approve", actor="person"): 1
    }


async def test_a_timeout_over_http_is_counted_by_tool(collected: Collected) -> None:
    """R43: a call that is out of time counts as a timeout and as an error of that class."""
    async with served(on_session=collected.watch, limits=Limits(timeout=0.01)) as it:
        await it.session()
        result = await post(it, "tools/held_back/call", arguments={"text": "c"})

    slow = labels(tool="held_back")
    assert result["failure"]["kind"] == "timeout"
    assert collected.counts("toolcrib.call.timeouts") == {slow: 1}
    assert collected.counts("toolcrib.call.errors") == {
        labels(tool="held_back", error="timeout"): 1
    }
    assert is_failed(collected.span("execute_tool held_back"))


async def test_spans_of_a_prompt_over_http(collected: Collected) -> None:
    """R43: the prompt, its steps and its calls are one tree, with the session and the call's id;
    its metrics know the prompt.
    """
    adapter = model([calls("echo", {"text": "hi"})], [says("done")])
    async with served(on_session=collected.watch, adapter=adapter) as it:
        await it.session()
        answer = await post(it, "prompt", text="go")

    run = collected.span("execute_tool echo")
    assert answer["status"] == "completed"
    assert collected.tree()[PROMPT] == ["chat test-model", run.name, "chat test-model"]
    assert attributes(run)["gen_ai.conversation.id"] == "s"
    assert attributes(run)["gen_ai.tool.call.id"] == "call_1"
    assert attributes(collected.span(PROMPT))["toolcrib.prompt.outcome"] == "completed"
    calls_by: dict[Labels, Any] = collected.counts("toolcrib.calls")
    assert calls_by == {labels(tool="echo", agent=AGENT): 1}


async def test_a_prompt_that_waits_and_goes_on_in_a_runtime(collected: Collected) -> None:
    """R43: what people take to decide is in no prompt's and no tool's time: one span ends when the
    prompt waits, another begins when it goes on.
    """
    adapter = model([calls("careful", {"text": "hi"})], [says("done")])
    async with served(on_session=collected.watch, adapter=adapter) as it:
        await it.session()
        waiting = await post(it, "prompt", text="go", waits=False)
        assert [attributes(each)["toolcrib.prompt.outcome"] for each in collected.all(PROMPT)] == [
            "waiting"
        ]
        (approval_id,) = waiting["pending"]
        await it.client.post(f"/v1/approvals/{approval_id}/decide", json={"decision": "approve"})
        await post(it, "prompt/resume")

    first, second = collected.all(PROMPT)
    assert "toolcrib.prompt.resumed" not in attributes(first)
    assert attributes(second)["toolcrib.prompt.resumed"] is True
    assert attributes(second)["toolcrib.prompt.outcome"] == "completed"
    assert collected.counts("toolcrib.calls") == {labels(tool="careful", agent=AGENT): 1}


async def test_a_cancelled_prompt_of_a_runtime_ends_its_spans(collected: Collected) -> None:
    """R43: prompt.cancel ends the prompt's span then, though the runtime goes on."""
    slow = SlowModel()
    async with served(on_session=collected.watch, adapter=slow.adapter()) as it:
        await it.session()
        work = asyncio.create_task(post(it, "prompt", text="go"))
        await slow.is_asked.wait()
        await post(it, "prompt/cancel")
        assert (await work)["status"] == "cancelled"

        assert attributes(collected.span(PROMPT))["toolcrib.prompt.outcome"] == "cancelled"


async def test_an_end_that_cannot_be_written_ends_its_span(
    collected: Collected, sqlite_path: Any
) -> None:
    """R43: when another process has taken over the session, the span of a call that ran here ends
    all the same, as unrecorded, and nothing is counted as running.
    """

    @tool
    async def work() -> str:
        """Work, while somebody else takes the session."""
        store.release(session.lease)
        return "done"

    with SqliteStore(sqlite_path) as store:
        session = await Session.open(store, "s")
        collected.watch(session)
        with pytest.raises(LeaseLost):
            await Executor(session, [work]).call("work")

    assert attributes(collected.span("execute_tool work"))["error.type"] == "unrecorded"
    assert collected.counts("toolcrib.call.active") == {labels(tool="work"): 0}
    assert collected.counts("toolcrib.call.errors") == {labels(tool="work", error="unrecorded"): 1}
