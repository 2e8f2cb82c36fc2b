"""`Runtime.advance` in a store of one machine: the prompt of a session goes on, whoever asks and
however often.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    SlowModel,
    host_tool,
    kinds,
    model,
    new_session,
    registry_of,
    serving,
)
from toolcrib import SqliteStore
from toolcrib.approval.policy import Policy, Rule
from toolcrib.errors import Refused
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store
from toolcrib.testing import calls, says

ADD = {"a": 2, "b": 3}


async def send(runtime: Runtime, session_id: str) -> Any:
    params = {"session_id": session_id, "text": "how many?", "waits": False}
    return await runtime.ask("prompt.send", params)


async def approve(runtime: Runtime) -> None:
    (approval,) = (await runtime.ask("approvals.list")).approvals
    params = {"approval_id": approval.approval_id, "digest": approval.digest}
    await runtime.ask("approvals.decide", {**params, "decision": "approve"})


async def test_a_session_without_a_prompt_is_idle(store: Store) -> None:
    """Nothing happens to a session that has nothing to do, however often it is advanced."""
    async with serving(store=store, adapter=model()) as runtime:
        session_id = await new_session(runtime)
        before = await kinds(runtime, session_id)
        statuses = [(await runtime.advance(session_id)).status for _ in range(3)]

        assert await kinds(runtime, session_id) == before
    assert statuses == ["idle"] * 3


async def test_there_is_no_such_session_to_advance() -> None:
    """A session id that nobody has is refused."""
    async with serving(adapter=model()) as runtime:
        with pytest.raises(Refused, match="no session"):
            await runtime.advance("ses_none")


async def test_a_turn_that_waits_is_left_as_it_is(store: Store) -> None:
    """Before a decision there is nothing to do: `waiting`, with no record of having looked."""
    tool, adapter = host_tool("add", requires_approval=True), model([calls("add", ADD)])
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        sent = await send(runtime, session_id)
        before = await kinds(runtime, session_id)
        looks = [await runtime.advance(session_id) for _ in range(3)]
        after = await kinds(runtime, session_id)

    assert [look.status for look in looks] == ["waiting"] * 3
    assert looks[0].result is not None
    assert looks[0].result.pending == sent.pending
    assert before == after


async def test_a_decision_lets_a_turn_go_on(store: Store) -> None:
    """After the decision, `advance` runs what was approved, until the model has answered."""
    adapter = model([calls("add", ADD)], [says("five")])
    tool = host_tool("add", requires_approval=True)
    async with serving(tool, store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id)
        await approve(runtime)
        advanced = await runtime.advance(session_id)
        again = await runtime.advance(session_id)
        ran = await kinds(runtime, session_id)

    assert advanced.status == "answered"
    assert advanced.result is not None
    assert advanced.result.text == "five"
    assert again.status == "idle"
    assert ran.count("tool.invoked") == 1


async def test_a_turn_goes_on_in_another_process(sqlite_path: Path) -> None:
    """A session that nobody has open is opened, advanced and let go for the next process."""
    registry = registry_of(host_tool("add", requires_approval=True))
    config: Any = {"host_tool_registry": registry}
    store = SqliteStore(sqlite_path)
    async with serving(store=store, adapter=model([calls("add", ADD)]), **config) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id)
    store.close()

    store = SqliteStore(sqlite_path)
    async with serving(store=store, adapter=model([says("five")]), **config) as runtime:
        waiting = await runtime.advance(session_id)
        await approve(runtime)
        answered = await runtime.advance(session_id)
        is_open = store.session(session_id).is_open
    store.close()

    assert (waiting.status, answered.status, is_open) == ("waiting", "answered", False)


async def test_a_turn_that_another_process_runs_is_elsewhere(sqlite_path: Path) -> None:
    """While somebody else has the session, here or there, nothing is done twice."""
    slow, store, other = SlowModel(), SqliteStore(sqlite_path), SqliteStore(sqlite_path)
    async with serving(store=store, adapter=slow.adapter()) as runtime:
        session_id = await new_session(runtime)
        prompt = asyncio.ensure_future(send(runtime, session_id))
        await slow.is_asked.wait()
        here = await runtime.advance(session_id)
        async with serving(store=other, adapter=model()) as elsewhere:
            there = await elsewhere.advance(session_id)
        await runtime.ask("prompt.cancel", {"session_id": session_id})
        await prompt
    store.close()
    other.close()

    assert (here.status, there.status) == ("elsewhere", "elsewhere")


async def test_a_deadline_says_when_to_come_back(store: Store) -> None:
    """A turn whose request expires says when; after that it goes on without a decision."""
    policy = Policy(rules=(Rule(tool="add", effect="ask", deadline_seconds=3_600),))
    adapter = model([calls("add", ADD)])
    async with serving(host_tool("add"), store=store, adapter=adapter, policy=policy) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id)
        advanced = await runtime.advance(session_id)
        (approval,) = (await runtime.ask("approvals.list")).approvals

    assert advanced.wake_at == approval.deadline
