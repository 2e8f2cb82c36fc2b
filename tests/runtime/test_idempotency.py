"""What is asked for twice under one key is done once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    CALLER,
    Gate,
    Json,
    call,
    host_tool,
    model,
    new_session,
    refusal,
    serving,
)
from toolcrib import SqliteStore, ToolContext
from toolcrib.errors import Refused
from toolcrib.runtime.idempotency import IdempotencyKeys
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.testing import FakeClock, says


async def test_a_session_is_created_once() -> None:
    """The same key and body give the same session; another body is a conflict."""
    async with serving() as runtime:
        asked: Json = {"metadata": {"n": 1}, "idempotency_key": "k"}
        first = await runtime.ask("session.create", asked)
        again = await runtime.ask("session.create", dict(asked))
        other = await refusal(runtime, "session.create", {"idempotency_key": "k"})
        listed = await runtime.ask("session.list")

    assert first == again
    assert other.kind == "conflict"
    assert len(listed.sessions) == 1


async def test_a_call_runs_once_for_all_who_ask() -> None:
    """Several that ask at the same time under one key share one run; who leaves stops nobody."""
    gate = Gate()
    async with serving(host_tool("gate", gate)) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "name": "gate", "idempotency_key": "k"}
        asking = [asyncio.create_task(runtime.ask("tools.call", asked)) for _ in range(3)]
        await gate.is_entered.wait()
        asking.pop().cancel()
        gate.is_open.set()
        results = [*await asyncio.gather(*asking), await runtime.ask("tools.call", asked)]

    assert gate.entered == 1
    assert len({each.call_id for each in results}) == 1


async def test_a_prompt_is_answered_once() -> None:
    """A prompt sent again under its key gives the answer it had."""
    async with serving(adapter=model([says("one")], [says("two")])) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "text": "hi", "idempotency_key": "k"}
        answers = [await runtime.ask("prompt.send", asked) for _ in range(2)]
        refused = await refusal(runtime, "prompt.send", {**asked, "text": "ho"})
        next_one = await runtime.ask("prompt.send", {**asked, "idempotency_key": "l"})

    assert [each.text for each in answers] == ["one", "one"]
    assert refused.kind == "conflict"
    assert next_one.text == "two"


async def test_a_decision_is_made_once() -> None:
    """A decision repeated under its key is the one that was made, not a conflict."""
    async with serving(host_tool("add", requires_approval=True)) as runtime:
        waiting = await call(runtime, await new_session(runtime), "add", a=1, b=2)
        asked = {
            "approval_id": waiting.approval_id,
            "decision": "approve",
            "idempotency_key": "k",
        }
        first = await runtime.ask("approvals.decide", asked)
        again = await runtime.ask("approvals.decide", asked)
        other = await refusal(runtime, "approvals.decide", {**asked, "decision": "deny"})
        bare = {key: asked[key] for key in ("approval_id", "decision")}
        without = await refusal(runtime, "approvals.decide", bare)

    assert first == again
    assert (first.state, first.decided_by) == ("decided", "owner")
    assert other.kind == without.kind == "conflict"


async def test_keys_are_each_principals_own() -> None:
    """Two principals may use one key; neither gets the other's answer."""
    other = Principal("bot", OWNER.roles)
    async with serving() as runtime:
        asked = {"idempotency_key": "k"}
        mine = await runtime.ask("session.create", asked)
        theirs = await runtime.ask("session.create", asked, other)

    assert mine.session_id != theirs.session_id


async def test_what_was_refused_may_be_tried_again() -> None:
    """A refusal is not remembered under its key."""
    async with serving(max_sessions=1) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": "t", "idempotency_key": "k"}
        refused = await refusal(runtime, "session.create", asked)
        await runtime.ask("session.close", {"session_id": session_id})
        created = await runtime.ask("session.create", asked)

    assert refused.kind == "unavailable"
    assert created.session_id == "t"


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_is_neither_empty_nor_huge(key: str) -> None:
    """Keys have bounds, and breaking them is told."""
    async with serving() as runtime:
        refused = await refusal(runtime, "session.create", {"idempotency_key": key})

    assert refused.kind == "invalid"


async def test_keys_are_forgotten_by_age_and_number() -> None:
    """Old keys go, and the oldest when there are too many; what is being done stays."""
    clock, runs = FakeClock(), list[str]()
    keys = IdempotencyKeys(clock, seconds=10, limit=2)

    async def do(key: str) -> None:
        async def work() -> None:
            runs.append(key)

        await keys.run("me", "op", key, {}, work)

    for key in ("a", "a", "b", "c", "a"):
        await do(key)
    clock.advance(11)
    await do("a")

    assert runs == ["a", "b", "c", "a", "a"]


async def test_what_is_being_done_is_not_forgotten() -> None:
    """However many keys come, one whose work goes on is not begun a second time."""
    keys, go, runs = IdempotencyKeys(FakeClock(), limit=1), asyncio.Event(), list[str]()

    async def slow() -> None:
        runs.append("slow")
        await go.wait()

    async def quick() -> None:
        runs.append("quick")

    first = asyncio.create_task(keys.run("me", "op", "a", {}, slow))
    await asyncio.sleep(0)
    await keys.run("me", "op", "b", {}, quick)
    second = asyncio.create_task(keys.run("me", "op", "a", {}, slow))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(first, second)

    assert runs == ["slow", "quick"]


async def test_a_failure_is_told_to_all_who_wait() -> None:
    """Those who share one run share its refusal, and nothing is left unheard."""

    async def fail(given: Json, context: ToolContext) -> Any:
        raise Refused("unavailable", "later")

    keys = IdempotencyKeys(FakeClock())
    asking = [keys.run("me", "op", "k", {}, lambda: fail({}, ToolContext("s", "."))) for _ in "ab"]
    results = await asyncio.gather(*asking, return_exceptions=True)

    assert [str(each) for each in results] == ["later", "later"]


async def test_a_call_under_a_key_outlives_its_process(sqlite_path: Path) -> None:
    """A client that asks again after a restart gets the answer that the ledger has: the tool ran
    once, and the key is not free for anything else, nor anybody else's.
    """
    runs: list[Json] = []

    async def work(given: Json, context: ToolContext) -> Json:
        runs.append(given)
        if given.get("fails"):
            raise ValueError("no")
        return {"n": len(runs)}

    asked: Json = {"session_id": "s", "name": "work", "idempotency_key": "k", "arguments": {"x": 1}}
    failing = {**asked, "idempotency_key": "f", "arguments": {"fails": True}}
    tool = host_tool("work", work)
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await new_session(runtime, session_id="s")
            first = [await runtime.ask("tools.call", each) for each in (asked, failing)]
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await runtime.ask("session.resume", {"session_id": "s"})
            again = [await runtime.ask("tools.call", each) for each in (asked, failing)]
            other = await refusal(runtime, "tools.call", {**asked, "arguments": {"x": 2}})
            theirs = await runtime.ask("tools.call", asked, CALLER)
            fork = await runtime.ask("session.fork", {"session_id": "s", "new_session_id": "t"})
            forked = await runtime.ask("tools.call", {**asked, "session_id": fork.session_id})

    assert again == first
    assert (again[0].value, again[1].failure.kind) == ({"n": 1}, "tool_error")
    assert other.kind == "conflict"
    assert (theirs.value, forked.value, len(runs)) == ({"n": 3}, {"n": 4}, 4)


async def test_a_waiting_call_under_a_key_is_taken_up_after_a_restart(sqlite_path: Path) -> None:
    """R42: asked again under its key in another process, a call that waits is the same call."""
    tool = host_tool("add", requires_approval=True)
    asked: Json = {"session_id": "s", "name": "add", "idempotency_key": "k"}
    asked["arguments"] = {"a": 1, "b": 2}
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await new_session(runtime, session_id="s")
            waiting = await runtime.ask("tools.call", asked)
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await runtime.ask("session.resume", {"session_id": "s"})
            decision = {"approval_id": waiting.approval_id, "decision": "approve"}
            await runtime.ask("approvals.decide", decision)
            result = await runtime.ask("tools.call", asked)

    assert (waiting.status, result.status, result.value) == ("waiting", "completed", 3)
    assert result.call_id == waiting.call_id
