"""What one principal may take of a runtime, and sessions that are let go while nobody uses them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    Gate,
    Json,
    add,
    first_event,
    host_tool,
    kinds,
    new_session,
    refusal,
    serving,
)
from toolcrib import SqliteStore, ToolContext
from toolcrib.errors import Refused, UsageError
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.quotas import NO_LIMITS, PrincipalLimits, Quotas
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.sessions import LiveSessions

ALICE = Principal("alice", frozenset({"caller"}))
BOB = Principal("bob", frozenset({"caller"}))
ADMIN = Principal("root", frozenset({"admin"}))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def quotas(clock: Clock, **limits: Any) -> Quotas:
    return Quotas(PrincipalLimits(**limits), clock)


def seconds_to_wait(refused: Refused) -> int:
    assert refused.kind == "too_many_requests"
    return refused.facts["retry_after_seconds"]


def test_calls_a_minute_are_refilled_evenly() -> None:
    """As many at once as a minute has, then one for each share of the minute; others are not
    affected, and the refusal says when to come back.
    """
    clock = Clock()
    taken = quotas(clock, calls_per_minute=60, concurrent_calls=None)
    alice, bob = taken.of(ALICE), taken.of(BOB)
    assert alice is not None
    assert bob is not None
    for _ in range(60):
        alice.begin_call()
        alice.end_call()
    with pytest.raises(Refused) as refused:
        alice.begin_call()
    bob.begin_call()
    clock.now += 1
    alice.begin_call()
    with pytest.raises(Refused):
        alice.begin_call()

    assert seconds_to_wait(refused.value) == 1
    assert taken.of(ADMIN) is None
    assert Quotas(NO_LIMITS, clock).of(ALICE) is None


def test_bytes_are_counted_by_the_day() -> None:
    """A request that would go over the bytes of a day is refused until the day is over."""
    clock = Clock()
    taken = quotas(clock, payload_bytes_per_day=100)
    taken.take_bytes(ALICE, 60)
    with pytest.raises(Refused) as refused:
        taken.take_bytes(ALICE, 60)
    taken.take_bytes(ALICE, 40)
    taken.take_bytes(BOB, 100)
    clock.now += 86_400
    taken.take_bytes(ALICE, 100)

    assert seconds_to_wait(refused.value) == 86_400


def test_limits_are_positive() -> None:
    """A limit of nothing would lock everybody out."""
    with pytest.raises(UsageError, match="concurrent_calls"):
        PrincipalLimits(concurrent_calls=0)


def test_quotas_of_names_from_outside_are_bounded() -> None:
    """Principals come and go; those under which nothing runs are forgotten, the others never."""
    clock = Clock()
    taken = quotas(clock, calls_per_minute=1)
    busy = taken.of(ALICE)
    assert busy is not None
    busy.begin_call()
    for number in range(10_050):
        taken.of(Principal(f"p{number}", frozenset({"caller"})))

    assert taken.of(ALICE) is busy


async def test_concurrent_calls_of_one_principal_are_bounded() -> None:
    """The next call is refused while the others run, and taken when one of them has ended; calls
    of somebody else and of an admin go on.
    """
    gate = Gate()
    limits = PrincipalLimits(concurrent_calls=2)
    async with serving(
        host_tool("gate", gate), host_tool("add"), principal_limits=limits
    ) as runtime:
        own, theirs = await new_session(runtime, ALICE), await new_session(runtime, BOB)
        asked: Json = {"session_id": own, "name": "gate"}
        running = [asyncio.create_task(runtime.ask("tools.call", asked, ALICE)) for _ in range(2)]
        await first_event(runtime, own, "call.started", 2)
        refused = await refusal(runtime, "tools.call", asked, ALICE)
        sums: Json = {"name": "add", "arguments": {"a": 1, "b": 2}}
        other = await runtime.ask("tools.call", {"session_id": theirs, **sums}, BOB)
        admins = await runtime.ask("tools.call", {"session_id": own, **sums}, ADMIN)
        gate.is_open.set()
        await asyncio.gather(*running)
        again = await runtime.ask("tools.call", {"session_id": own, **sums}, ALICE)

    assert seconds_to_wait(refused) == 1
    assert (other.value, admins.value, again.value) == (3, 3, 3)


async def test_open_sessions_of_one_principal_are_bounded() -> None:
    """Nobody fills the runtime with sessions; one that is closed makes room."""
    async with serving(principal_limits=PrincipalLimits(open_sessions=2)) as runtime:
        own = [await new_session(runtime, ALICE) for _ in range(2)]
        refused = await refusal(runtime, "session.create", None, ALICE)
        await new_session(runtime, BOB)
        for _ in range(3):
            await new_session(runtime, ADMIN)
        await runtime.ask("session.close", {"session_id": own[0]}, ALICE)
        await new_session(runtime, ALICE)
        resumed = await refusal(runtime, "session.resume", {"session_id": own[0]}, ALICE)

    assert (refused.kind, resumed.kind) == ("too_many_requests", "too_many_requests")


IDLE = 600.0


async def let_go(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> LiveSessions:
    """Let the idle time pass, and the runtime look once."""
    sessions = runtime._sessions  # pyright: ignore[reportPrivateUsage]
    assert sessions is not None
    clock = sessions._clock  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(sessions, "_clock", lambda: clock() + 2 * IDLE)
    await sessions.close_idle()
    monkeypatch.setattr(sessions, "_clock", clock)
    return sessions


async def test_an_idle_session_is_let_go_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is released, so that another process may write it; the next request of its owner
    opens it as it was, with its environment, in the same ledger. Others still get nothing.
    """
    seen: list[str | None] = []

    async def look(given: Json, context: ToolContext) -> int:
        seen.append(context.environment.get("WHERE"))
        return len(seen)

    with SqliteStore(tmp_path / "ledger.db") as store:
        async with serving(host_tool("look", look), store=store, idle_seconds=IDLE) as runtime:
            own = await new_session(runtime, ADMIN, environment={"WHERE": "here"})
            asked: Json = {"session_id": own, "name": "look"}
            await runtime.ask("tools.call", asked, ADMIN)
            sessions = await let_go(runtime, monkeypatch)
            is_live, is_held = sessions.find(own) is not None, store.session(own).is_open
            foreign = await refusal(runtime, "tools.call", asked, ALICE)
            was_woken = sessions.find(own) is not None
            again = await runtime.ask("tools.call", asked, ADMIN)
            opened = (await kinds(runtime, own)).count("session.opened")

    assert (is_live, is_held, was_woken) == (False, False, False)
    assert (foreign.kind, again.value, seen) == ("not_found", 2, ["here", "here"])
    assert opened == 2


async def test_a_session_in_use_is_not_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while a call runs in it nor while somebody reads its events."""
    gate = Gate()
    async with serving(host_tool("gate", gate), idle_seconds=IDLE) as runtime:
        busy, read, idle = [await new_session(runtime, ALICE) for _ in range(3)]
        calling = asyncio.create_task(
            runtime.ask("tools.call", {"session_id": busy, "name": "gate"}, ALICE)
        )
        await gate.is_entered.wait()
        reader = runtime.service.follow(read, who=ALICE)
        sessions = await let_go(runtime, monkeypatch)
        live = [each for each in (busy, read, idle) if sessions.find(each) is not None]
        reader.close()
        gate.is_open.set()
        result = await calling

    assert live == [busy, read]
    assert result.value == "through"


async def test_a_call_that_waits_survives_being_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting call lies in the store: its session may go, and the decision finds it."""
    async with serving(host_tool("add", add, requires_approval=True), idle_seconds=IDLE) as runtime:
        own = await new_session(runtime, ALICE)
        asked: Json = {"session_id": own, "name": "add", "call_id": "c1"}
        asked["arguments"] = {"a": 1, "b": 2}
        waiting = await runtime.ask("tools.call", asked, ALICE)
        sessions = await let_go(runtime, monkeypatch)
        assert sessions.find(own) is None
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        await runtime.ask("approvals.decide", decision, ADMIN)
        result = await runtime.ask("tools.call", asked, ALICE)

    assert (waiting.status, result.value) == ("waiting", 3)


async def test_a_closed_session_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the idle time is undone by a request: who closes a session has to resume it, also one
    that was let go before.
    """
    async with serving(host_tool("add"), idle_seconds=IDLE) as runtime:
        own = await new_session(runtime, ALICE)
        await let_go(runtime, monkeypatch)
        await runtime.ask("session.close", {"session_id": own}, ALICE)
        refused = await refusal(runtime, "tools.list", {"session_id": own}, ALICE)
        await runtime.ask("session.resume", {"session_id": own}, ALICE)
        listed = await runtime.ask("tools.list", {"session_id": own}, ALICE)

    assert refused.kind == "not_found"
    assert "resume it" in refused.message
    assert [each.name for each in listed.tools] == ["add"]


async def test_the_runtime_lets_go_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to ask: sessions are looked at while the runtime runs."""
    async with serving(host_tool("add"), idle_seconds=0.02) as runtime:
        own = await new_session(runtime, ALICE)
        sessions = runtime._sessions  # pyright: ignore[reportPrivateUsage]
        assert sessions is not None
        let_go, is_over = sessions.close_idle, asyncio.Event()

        async def close_idle() -> None:
            await let_go()
            if sessions.find(own) is None:
                is_over.set()

        monkeypatch.setattr(sessions, "close_idle", close_idle)
        await is_over.wait()
        await runtime.service.wake(own, ALICE)
        assert (await first_event(runtime, own, "session.opened", 2)).seq > 1
    with pytest.raises(UsageError, match="idle_seconds"):
        async with serving(idle_seconds=0):
            pass


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_temporary_session_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    """Newcomers 14: who only looks at the tools leaves no session in the store; what was called
    stays on record.
    """
    store = SqliteStore(tmp_path / "ledger.db") if kind == "sqlite" else None
    async with serving(host_tool("add"), store=store) as runtime:
        looked, called = [await new_session(runtime, ALICE, is_temporary=True) for _ in range(2)]
        await runtime.ask("tools.list", {"session_id": looked}, ALICE)
        asked: Json = {"session_id": called, "name": "add", "arguments": {"a": 1, "b": 2}}
        await runtime.ask("tools.call", asked, ALICE)
        for session_id in (looked, called):
            await runtime.ask("session.close", {"session_id": session_id}, ALICE)
        left = await runtime.ask("session.list", None, ALICE)
    if store is not None:
        store.close()

    assert [each.session_id for each in left.sessions] == [called]
