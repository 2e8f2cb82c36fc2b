"""Closing a runtime: drained, then cancelled, and every ledger whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    Gate,
    Json,
    SlowModel,
    call,
    host_tool,
    new_session,
    refusal,
    serving,
)
from toolcrib import RuntimeConfig, Session, SqliteStore, ToolContext, create_runtime
from toolcrib.errors import Refused, UsageError
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import events
from toolcrib.runtime import live_session
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store


async def closing(runtime: Runtime) -> asyncio.Task[None]:
    """A runtime that has begun to close."""
    task = asyncio.create_task(runtime.close())
    await asyncio.sleep(0)
    assert (await refusal(runtime, "session.list")).kind == "closing"
    return task


async def what_ran(store: Store, session_id: str) -> list[str]:
    """How the calls of a session ended, from a ledger that verifies."""
    async with await Session.open(store, session_id) as session:
        session.verify()
        ended = [each for each in events(session.records()) if isinstance(each, ToolInvoked)]
    return [each.failure.kind if each.failure else "completed" for each in ended]


async def test_what_runs_may_end(store: Store) -> None:
    """Closing waits for a call, takes nothing new meanwhile, and answers whoever waits."""
    gate = Gate()
    async with serving(host_tool("gate", gate), store=store, drain_seconds=60) as runtime:
        session_id = await new_session(runtime)
        calling = asyncio.create_task(call(runtime, session_id, "gate"))
        await gate.is_entered.wait()
        task = await closing(runtime)
        gate.is_open.set()
        await task

    assert (await calling).value == "through"
    assert await what_ran(store, session_id) == ["completed"]


async def test_what_does_not_end_is_cancelled(store: Store) -> None:
    """After the drain a call is cancelled, recorded as that, and whoever waits is told."""
    gate = Gate()
    async with serving(host_tool("gate", gate), store=store, drain_seconds=0) as runtime:
        session_id = await new_session(runtime)
        calling = asyncio.create_task(call(runtime, session_id, "gate"))
        await gate.is_entered.wait()
    with pytest.raises(Refused) as refused:
        await calling

    assert refused.value.kind == "closing"
    assert gate.was_cancelled
    assert await what_ran(store, session_id) == ["cancelled"]


async def test_a_prompt_is_cancelled_too(store: Store) -> None:
    """After the drain the model's request is given up."""
    slow = SlowModel()
    async with serving(store=store, adapter=slow.adapter(), drain_seconds=0) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "text": "hi"}
        prompt = asyncio.create_task(runtime.ask("prompt.send", asked))
        await slow.is_asked.wait()

    assert (await prompt).status == "cancelled"
    assert slow.is_left.is_set()
    assert await what_ran(store, session_id) == []


async def test_a_handler_that_will_not_stop_is_left(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing ends even so; the call is in doubt for whoever opens the session next."""
    monkeypatch.setattr(live_session, "STOP_SECONDS", 0.01)
    monkeypatch.setattr("toolcrib.runtime.runtime.STOP_SECONDS", 0.01)
    is_entered, is_over, store = asyncio.Event(), asyncio.Event(), SqliteStore(sqlite_path)

    async def stubborn(given: Json, context: ToolContext) -> str:
        is_entered.set()
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async with serving(host_tool("stubborn", stubborn), store=store, drain_seconds=0) as runtime:
        session_id = await new_session(runtime)
        calling = asyncio.create_task(call(runtime, session_id, "stubborn"))
        await is_entered.wait()
    async with await Session.open(store, session_id) as session:
        session.verify()
        doubtful = [each.tool.name for each in session.in_doubt()]
    is_over.set()
    await asyncio.wait([calling])
    calling.exception()
    store.close()

    assert doubtful == ["stubborn"]


async def test_one_session_that_fails_to_close_does_not_keep_the_others() -> None:
    """A handler of one session that fails to close is logged; all sessions are let go."""

    class Failing:
        def __init__(self, session: Session) -> None:
            self._close = session.close

        async def __call__(self, *, releases: bool = True) -> None:
            await self._close(releases=releases)
            raise RuntimeError("disk full")

    def break_first(session: Session) -> None:
        if session.session_id == "a":
            session.close = Failing(session)

    async with serving(on_session=break_first) as runtime:
        for session_id in ("a", "b"):
            await new_session(runtime, session_id=session_id)
        store = runtime.store
    assert [each.is_open for each in store.sessions().items] == [False, False]


async def test_closing_is_done_once_and_goes_on() -> None:
    """Several may close at once, and one that leaves does not stop it."""
    gate = Gate()
    async with serving(host_tool("gate", gate), drain_seconds=60) as runtime:
        session_id = await new_session(runtime)
        calling = asyncio.create_task(call(runtime, session_id, "gate"))
        await gate.is_entered.wait()
        leaving = await closing(runtime)
        leaving.cancel()
        await asyncio.wait([leaving])
        waiting = asyncio.create_task(runtime.close())
        gate.is_open.set()
        await asyncio.gather(calling, waiting)

    assert calling.result().value == "through"


async def test_a_store_that_was_given_stays_open(store: Store) -> None:
    """Who brings a store closes it."""
    async with serving(store=store) as runtime:
        session_id = await new_session(runtime)

    assert [each.session_id for each in store.sessions().items] == [session_id]
    assert not store.session(session_id).is_open


@pytest.mark.parametrize(
    "wrong",
    [{"max_sessions": 0}, {"event_backlog": 0}, {"max_payload_bytes": 0}, {"drain_seconds": -1}],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    """A configuration is checked when it is made."""
    with pytest.raises(UsageError, match=next(iter(wrong))):
        create_runtime(RuntimeConfig(**wrong))
