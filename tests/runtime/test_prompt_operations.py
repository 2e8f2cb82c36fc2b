"""Prompts: one at a time, cancelled, waited for, gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import bench
from tests.adapters.openai.scripted_provider import message, response
from tests.runtime.host_runtime import (
    Gate,
    SlowModel,
    call,
    events,
    first_event,
    host_tool,
    model,
    new_session,
    refusal,
    registry_of,
    scripted,
    serving,
)
from toolcrib import Policy, Rule, Session, SqliteStore
from toolcrib.adapters.options import Budget
from toolcrib.errors import Refused
from toolcrib.prices.table import read_prices
from toolcrib.runtime import live_session
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.memory import MemoryStore
from toolcrib.store.store import Store
from toolcrib.testing import ScriptedOpenAI, calls, says

ADD = {"a": 1, "b": 2}


def send(runtime: Runtime, session_id: str, text: str = "go", **options: Any) -> asyncio.Task[Any]:
    asked = {"session_id": session_id, "text": text, **options}
    return asyncio.create_task(runtime.ask("prompt.send", asked))


async def decide(runtime: Runtime, decision: str = "approve") -> None:
    """Decide the one request that waits."""
    (waiting,) = (await runtime.ask("approvals.list")).approvals
    asked = {"approval_id": waiting.approval_id, "decision": decision}
    await runtime.ask("approvals.decide", asked)


async def test_a_model_calls_the_hosts_tools(store: Store) -> None:
    """R40: a prompt is answered with the session's tools, and follows what was said before."""
    script = ScriptedOpenAI([calls("add", ADD)], [says("3")], [says("as I said, 3")])
    config: Any = {"store": store, "adapter": scripted(script), "instructions": "Costs $5."}
    async with serving(host_tool("add"), **config) as runtime:
        session_id = await new_session(runtime)
        first = await send(runtime, session_id, "1+2? $x")
        second = await send(runtime, session_id, "sure?")

    assert (first.status, first.text, first.turn) == ("completed", "3", 1)
    assert (second.text, second.turn) == ("as I said, 3", 2)
    assert first.usage["requests"] == 2
    (message,) = script.requests[0]["input"]
    assert [part["text"] for part in message["content"]] == ["1+2? $x"]
    assert [request["instructions"] for request in script.requests] == ["Costs $5."] * 3
    assert script.requests[2]["previous_response_id"] == "resp_2"


async def test_without_a_model_prompts_are_unavailable() -> None:
    """A runtime without an adapter says so, in its capabilities too."""
    async with serving() as runtime:
        session_id = await new_session(runtime)
        refused = await refusal(runtime, "prompt.send", {"session_id": session_id, "text": "hi"})
        told = await runtime.ask("runtime.capabilities")

    assert refused.kind == "unavailable"
    assert told.has_model is False


async def test_a_prompt_that_fails_says_why() -> None:
    """A provider's refusal is a failed prompt, not an exception, and the session goes on."""
    async with serving(adapter=model()) as runtime:
        session_id = await new_session(runtime)
        failed = await send(runtime, session_id)
        facts = await runtime.ask("session.get", {"session_id": session_id})

    assert failed.status == "failed"
    assert "the script is over" in failed.error
    assert facts.is_busy is False


async def test_a_spent_budget_is_a_reason() -> None:
    """A program need not read the error's words to know which limit was reached."""
    steps = [[calls("add", ADD, call_id=f"call_{step}")] for step in range(51)]
    async with serving(host_tool("add"), adapter=model(*steps)) as runtime:
        failed = await send(runtime, await new_session(runtime))

    assert (failed.status, failed.reason) == ("failed", "max_steps")
    assert "the prompt takes 50 steps and may take 50" in failed.error


async def test_a_prompt_says_what_it_cost(tmp_path: Path) -> None:
    """In the result, as far as prices are known; tokens that nobody counts are not free."""
    file = tmp_path / "prices.yaml"
    file.write_text("models: {test-model: {input: 1, output: 1}}")
    store = MemoryStore(prices=read_prices(file))
    counted = response(message("3"))
    with bench(counted, counted) as (adapter, _):
        async with serving(store=store, adapter=adapter) as runtime:
            priced = await send(runtime, await new_session(runtime))
        async with serving(adapter=adapter) as runtime:
            unknown = await send(runtime, await new_session(runtime))
    store = MemoryStore(prices=read_prices(file))
    async with serving(store=store, adapter=model([says("3")])) as runtime:
        uncounted = await send(runtime, await new_session(runtime))

    tokens = counted["usage"]["input_tokens"] + counted["usage"]["output_tokens"]
    assert (priced.cost, priced.unpriced) == (pytest.approx(tokens / 1e6), [])
    for result in (unknown, uncounted):
        assert (result.cost, result.unpriced) == (None, ["tokens of test-model"])


async def test_the_budget_of_the_runtime_holds_for_every_prompt() -> None:
    """Here a limit on the cost, for a model that has no known price: nothing is sent."""
    script = ScriptedOpenAI([says("3")])
    async with serving(adapter=scripted(script), budget=Budget(max_cost=1)) as runtime:
        failed = await send(runtime, await new_session(runtime))

    assert (failed.status, failed.reason) == ("failed", "max_cost")
    assert script.requests == []


async def test_a_second_prompt_is_refused() -> None:
    """One turn at a time: by default a session that is busy says so, at the same moment too."""
    slow = SlowModel()
    async with serving(adapter=slow.adapter()) as runtime:
        session_id = await new_session(runtime)
        first, twin = send(runtime, session_id), send(runtime, session_id)
        await slow.is_asked.wait()
        refused = await refusal(runtime, "prompt.send", {"session_id": session_id, "text": "b"})
        facts = await runtime.ask("session.get", {"session_id": session_id})
        with pytest.raises(Refused) as same_moment:
            await twin
        await runtime.ask("prompt.cancel", {"session_id": session_id})
        await first

    assert refused.kind == same_moment.value.kind == "busy"
    assert facts.is_busy is True


async def test_prompts_can_be_enqueued() -> None:
    """With `enqueue` prompts are answered one after the other, in their order."""
    gate = Gate()
    script = ScriptedOpenAI([calls("gate")], [says("one")], [says("two")], [says("three")])
    async with serving(
        host_tool("gate", gate), adapter=scripted(script), when_busy="enqueue"
    ) as runtime:
        session_id = await new_session(runtime)
        asked = [send(runtime, session_id, text) for text in "abc"]
        await gate.is_entered.wait()
        gate.is_open.set()
        answers = await asyncio.gather(*asked)

    assert [(each.text, each.turn) for each in answers] == [("one", 1), ("two", 2), ("three", 3)]


async def test_a_prompt_can_interrupt() -> None:
    """With `interrupt` the running prompt is cancelled, and the new one answered."""
    gate = Gate()
    script = ScriptedOpenAI([calls("gate")], [says("instead")])
    async with serving(host_tool("gate", gate), adapter=scripted(script)) as runtime:
        session_id = await new_session(runtime)
        first = send(runtime, session_id)
        await gate.is_entered.wait()
        second = await send(runtime, session_id, when_busy="interrupt")

    assert ((await first).status, second.text) == ("cancelled", "instead")
    assert gate.was_cancelled


async def test_cancel_reaches_the_request() -> None:
    """A prompt that waits for the model is cancelled there; the session can be used again."""
    slow = SlowModel()
    async with serving(host_tool("add"), adapter=slow.adapter()) as runtime:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await slow.is_asked.wait()
        done = await runtime.ask("prompt.cancel", {"session_id": session_id})
        again = await runtime.ask("prompt.cancel", {"session_id": session_id})
        result = await call(runtime, session_id, "add", **ADD)
        resumed = await refusal(runtime, "prompt.resume", {"session_id": session_id})

    assert slow.is_left.is_set()
    assert (await prompt).status == "cancelled"
    assert (done.was_running, again.was_running) == (True, False)
    assert result.value == 3
    assert resumed.kind == "conflict"


async def test_cancel_reaches_the_tools(store: Store) -> None:
    """A tool that a cancelled prompt runs is cancelled and recorded; the next prompt is fine."""
    gate = Gate()
    adapter = model([calls("gate")], [says("next")])
    async with serving(host_tool("gate", gate), store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await gate.is_entered.wait()
        await runtime.ask("prompt.cancel", {"session_id": session_id})
        (recorded,) = await events(runtime, session_id, "tool.invoked")
        answer = await send(runtime, session_id)

    assert gate.was_cancelled
    assert (await prompt).status == "cancelled"
    assert recorded["data"]["failure"]["kind"] == "cancelled"
    assert answer.text == "next"


async def test_cancel_resolves_what_waits(store: Store) -> None:
    """R42: the requests of a cancelled prompt are no longer to be approved; those of calls
    without a model are.
    """
    adapter = model([calls("add", ADD)], [says("next")])
    tool = host_tool("add", requires_approval=True)
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        own = await call(runtime, session_id, "add", a=5, b=5)
        prompt = send(runtime, session_id)
        await first_event(runtime, session_id, "model.responded")
        await first_event(runtime, session_id, "approval.requested", 2)
        await runtime.ask("prompt.cancel", {"session_id": session_id})
        left = (await runtime.ask("approvals.list")).approvals
        answer = await send(runtime, session_id)

    assert (await prompt).status == "cancelled"
    assert [each.approval_id for each in left] == [own.approval_id]
    assert answer.text == "next"


@pytest.mark.parametrize(("decision", "success"), [("approve", True), ("deny", False)])
async def test_a_prompt_waits_for_its_approval(store: Store, decision: str, success: bool) -> None:
    """R42, R39: while it waits the runtime answers others; decided, it goes on by itself."""
    adapter = model([calls("add", ADD)], [says("done")])
    tool = host_tool("add", requires_approval=True)
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await first_event(runtime, session_id, "approval.requested")
        await decide(runtime, decision)
        answer = await prompt
        (recorded,) = await events(runtime, session_id, "tool.invoked")

    assert answer.text == "done"
    assert recorded["data"]["success"] is success


async def test_leaving_a_prompt_is_not_cancelling_it() -> None:
    """Who stops waiting for an answer does not stop the prompt."""
    gate = Gate()
    async with serving(
        host_tool("gate", gate), adapter=model([calls("gate")], [says("done")])
    ) as runtime:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await gate.is_entered.wait()
        prompt.cancel()
        await asyncio.wait([prompt])
        gate.is_open.set()
        event = await first_event(runtime, session_id, "prompt.answered")

    assert prompt.cancelled()
    assert event.data["text"] == "done"


async def test_a_prompt_goes_on_when_decided_in_another_process(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision that another runtime writes into the store is found."""
    monkeypatch.setattr(live_session, "POLL_SECONDS", 0.01)
    adapter = model([calls("add", ADD)], [says("done")])
    tool = host_tool("add", requires_approval=True)
    here, there = SqliteStore(sqlite_path), SqliteStore(sqlite_path)
    async with serving(tool, store=here, adapter=adapter) as runtime, serving(store=there) as other:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await first_event(runtime, session_id, "approval.requested")
        await decide(other)
        answer = await prompt
    here.close()
    there.close()

    assert answer.text == "done"


async def test_a_prompt_need_not_wait(store: Store) -> None:
    """With `waits` false it says what it waits for, and `prompt.resume` goes on with it."""
    adapter = model([calls("add", ADD)], [says("done")])
    tool = host_tool("add", requires_approval=True)
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        waiting = await send(runtime, session_id, waits=False)
        (filed,) = (await runtime.ask("approvals.list")).approvals
        still = await runtime.ask("prompt.resume", {"session_id": session_id, "waits": False})
        await decide(runtime)
        answer = await runtime.ask("prompt.resume", {"session_id": session_id})
        over = await refusal(runtime, "prompt.resume", {"session_id": session_id})

    assert waiting.status == still.status == "waiting"
    assert waiting.pending == [filed.approval_id]
    assert (answer.text, answer.turn) == ("done", 1)
    assert over.kind == "conflict"


async def test_a_new_prompt_gives_up_the_one_that_waits() -> None:
    """A session is in the middle of one prompt at most: the older one's requests are resolved."""
    adapter = model([calls("add", ADD)], [says("new")])
    async with serving(host_tool("add", requires_approval=True), adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id, waits=False)
        answer = await send(runtime, session_id)
        inbox = await runtime.ask("approvals.list")

    assert answer.text == "new"
    assert inbox.approvals == []


async def test_a_prompt_that_waits_outlives_its_runtime(sqlite_path: Path) -> None:
    """Closing does not resolve what waits: another runtime resumes the session and the prompt."""
    registry = registry_of(host_tool("add", requires_approval=True))
    store = SqliteStore(sqlite_path)
    config: Any = {"store": store, "host_tool_registry": registry, "drain_seconds": 60}
    async with serving(adapter=model([calls("add", ADD)]), **config) as runtime:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await first_event(runtime, session_id, "approval.requested")
    left = await prompt

    async with serving(adapter=model([says("done")]), **config) as runtime:
        await decide(runtime)
        await runtime.ask("session.resume", {"session_id": session_id})
        answer = await runtime.ask("prompt.resume", {"session_id": session_id})
    async with await Session.open(store, session_id) as session:
        session.verify()
    store.close()

    assert left.status == "waiting"
    assert (answer.status, answer.text) == ("completed", "done")


async def test_a_prompt_that_waits_outlives_its_open_session(store: Store) -> None:
    """Closing the session is not cancelling: what waits can be decided, and the prompt goes on."""
    adapter = model([calls("add", ADD)], [says("done")])
    tool = host_tool("add", requires_approval=True)
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        prompt = send(runtime, session_id)
        await first_event(runtime, session_id, "approval.requested")
        await runtime.ask("session.close", {"session_id": session_id})
        await prompt
        await runtime.ask("session.resume", {"session_id": session_id})
        await decide(runtime)
        answer = await runtime.ask("prompt.resume", {"session_id": session_id})

    assert answer.text == "done"


async def test_what_a_prompt_needs_to_go_on_is_durable(sqlite_path: Path) -> None:
    """While it waits, another process could go on with it: a crash here loses nothing."""
    tool = host_tool("add", requires_approval=True)
    store, reader = SqliteStore(sqlite_path), SqliteStore(sqlite_path)
    async with serving(tool, store=store, adapter=model([calls("add", ADD)])) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id, "how many?", waits=False)
        settings = reader.session(session_id).settings
    store.close()
    reader.close()

    assert settings["host"]["prompt"] == "how many?"


async def test_an_unanswered_request_expires(store: Store) -> None:
    """R42: when the deadline passes, the prompt goes on and the call is `expired`."""
    policy = Policy(rules=(Rule(tool="add", effect="ask", deadline_seconds=0.05),))
    adapter = model([calls("add", ADD)], [says("too late")])
    async with serving(host_tool("add"), store=store, adapter=adapter, policy=policy) as runtime:
        session_id = await new_session(runtime)
        answer = await send(runtime, session_id)
        (recorded,) = await events(runtime, session_id, "tool.invoked")

    assert answer.text == "too late"
    assert recorded["data"]["failure"]["kind"] == "expired"


async def test_closing_a_session_ends_what_is_enqueued() -> None:
    """No enqueued prompt begins in a session that is being closed."""
    slow = SlowModel()
    async with serving(adapter=slow.adapter(), when_busy="enqueue") as runtime:
        session_id = await new_session(runtime)
        prompts = [send(runtime, session_id) for _ in range(3)]
        await slow.is_asked.wait()
        await runtime.ask("session.close", {"session_id": session_id})
        ended = await asyncio.gather(*prompts)

    assert [each.status for each in ended] == ["cancelled"] * 3
    assert slow.is_left.is_set()
