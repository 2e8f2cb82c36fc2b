"""One client of a runtime: many requests at once, events, and tools of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.transports.in_process_client import Wire, wired
from tests.transports.rpc_client import RpcError
from tests.transports.shop import shop
from toolcrib.errors import Refused
from toolcrib.runtime.event_reader import EventReader
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.session.session import Session
from toolcrib.store.memory import MemoryStore
from toolcrib.transports.peer import Peer
from toolcrib.transports.subscriptions import Outbox, Subscriptions

ONE = {"session_id": "one"}


@pytest.fixture
async def runtime() -> AsyncGenerator[Runtime]:
    async with shop(drain_seconds=0.0, event_backlog=20) as started:
        yield started


def call(name: str, **more: Any) -> dict[str, Any]:
    return {**ONE, "name": name, **more}


async def begin_endless(wire: Wire, **more: Any) -> Any:
    """A call that has entered its handler."""
    running = await wire.begin("tools.call", call("endless", **more))
    await wire.ask("events.subscribe", ONE)
    while (await wire.events("one").get())["kind"] != "tool.output":
        pass
    return running


async def test_requests_are_answered_while_others_run(runtime: Runtime) -> None:
    """R39: a long call holds up neither a ping nor another call, and can be cancelled by its
    request.
    """
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        running = await begin_endless(wire)

        assert await wire.ask("ping") == {}
        assert (await wire.ask("tools.call", call("broken")))["status"] == "failed"
        assert not wire.is_answered(running)
        assert await wire.ask("$/cancel", {"id": running}) == {"was_running": True}

        assert (await wire.end(running))["failure"]["kind"] == "cancelled"


async def test_a_cancel_may_be_a_notification(runtime: Runtime) -> None:
    """Who cancels need not wait for an answer."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        running = await begin_endless(wire)

        await wire.notify("$/cancel", {"id": running})

        assert (await wire.end(running))["failure"]["kind"] == "cancelled"


async def test_giving_up_a_request_with_a_key_leaves_its_work(runtime: Runtime) -> None:
    """The work under an idempotency key may be another's too: only the answer is given up."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        running = await begin_endless(wire, idempotency_key="k")

        await wire.ask("$/cancel", {"id": running})

        with pytest.raises(RpcError) as told:
            await wire.end(running)
        assert told.value.code == -32800
        kinds = [each["kind"] for each in (await wire.ask("events.list", ONE))["events"]]
        assert "tool.invoked" not in kinds
        assert await wire.ask("$/cancel", {"id": running}) == {"was_running": False}


async def test_an_id_in_flight_cannot_be_used_again(runtime: Runtime) -> None:
    """The second request is refused under no id, so that the first keeps its answer."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        running = await begin_endless(wire)

        await wire.send({"jsonrpc": "2.0", "id": running, "method": "ping"})

        assert (await wire.complaints.get())["code"] == -32600
        assert not wire.is_answered(running)


@pytest.mark.parametrize("happens", [0, 60], ids=["read", "behind"])
async def test_events_end_when_their_session_is_deleted(
    runtime: Runtime, happens: int, caplog: pytest.LogCaptureFixture
) -> None:
    """F16: whoever follows them is told, also who has not read all, and nothing fails."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        await wire.ask("events.subscribe", ONE)
        for _ in range(happens):
            await wire.ask("tools.call", call("broken"))
        await wire.ask("session.delete", ONE)
        async with asyncio.timeout(PATIENCE):
            told = await wire.told.get()

    assert (told["method"], told["params"]["session_id"]) == ("events.ended", "one")
    # The calls themselves fail, and say so.
    assert not [each for each in caplog.messages if "events" in each]
    assert wire.events("one").qsize() > 0


@pytest.mark.parametrize("method", ["tools.nothing", "__init__", ""])
async def test_an_unknown_method_is_told(runtime: Runtime, method: str) -> None:
    """The code is the one of the specification."""
    async with wired(runtime) as wire:
        with pytest.raises(RpcError) as told:
            await wire.ask(method)

        assert told.value.code == -32601


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("tools.call", {}, "invalid"),
        ("ping", {"more": 1}, "invalid"),
        ("events.subscribe", {**ONE, "after": -1}, "invalid"),
        # Finding 19: more than a store can count to.
        ("events.subscribe", {**ONE, "after": 2**63}, "invalid"),
        ("events.subscribe", {**ONE, "after": 10**20}, "invalid"),
        ("events.list", {**ONE, "after": 10**20}, "invalid"),
        ("events.subscribe", {"session_id": "none"}, "not_found"),
        ("client.attach", {"session_id": "none"}, "not_found"),
        ("$/cancel", {"id": [1]}, "invalid"),
        ("session.create", ONE, "conflict"),
    ],
)
async def test_refusals_carry_their_kind(
    runtime: Runtime, method: str, params: Any, kind: str
) -> None:
    """A program can tell refusals apart, those of the connection as those of the runtime."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)

        with pytest.raises(Refused) as told:
            await wire.ask(method, params)

        assert told.value.kind == kind


@pytest.mark.parametrize(
    ("method", "params"),
    [("session.create", {}), ("client.attach", ONE), ("approvals.decide", {})],
)
async def test_a_principal_does_only_what_its_roles_allow(
    runtime: Runtime, method: str, params: Any
) -> None:
    """Who may read may neither call nor decide nor run the client's tools."""
    async with wired(runtime, Principal("reader", frozenset({"auditor"}))) as wire:
        with pytest.raises(Refused) as told:
            await wire.ask(method, params)

        assert told.value.kind == "forbidden"


async def test_events_come_in_order_after_a_place(runtime: Runtime) -> None:
    """The answer comes first, then what happened after the place, then what happens, each once."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        await wire.ask("tools.call", call("stepping"))
        kept = (await wire.ask("events.list", ONE))["events"]

        assert await wire.ask("events.subscribe", {**ONE, "after": 2}) == {**ONE, "after": 2}
        heard = [await wire.events("one").get() for _ in kept[2:]]
        assert heard == kept[2:]
        await wire.ask("tools.call", call("broken"))
        assert (await wire.events("one").get())["seq"] == kept[-1]["seq"] + 1

        assert await wire.ask("events.unsubscribe", ONE) == {"was_subscribed": True}
        assert await wire.ask("events.unsubscribe", ONE) == {"was_subscribed": False}


async def test_a_second_subscription_takes_the_place_of_the_first(runtime: Runtime) -> None:
    """No event comes twice to one client."""
    async with wired(runtime) as wire:
        first = (await wire.ask("session.create", ONE))["last_seq"]
        await wire.ask("events.subscribe", {**ONE, "after": first})
        await wire.ask("events.subscribe", {**ONE, "after": first})
        await wire.ask("tools.call", call("broken"))
        last = (await wire.ask("session.get", ONE))["last_seq"]

        heard = [await wire.events("one").get() for _ in range(last - first)]

        assert [each["seq"] for each in heard] == list(range(first + 1, last + 1))
        await wire.ask("ping")
        assert wire.events("one").empty()


async def test_the_end_of_a_session_is_told(runtime: Runtime) -> None:
    """A client does not wait for events that cannot come."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        await wire.ask("events.subscribe", ONE)
        await wire.ask("session.close", ONE)

        ended = await wire.told.get()

        assert (ended["method"], ended["params"]["session_id"]) == ("events.ended", "one")


async def test_a_subscription_that_ends_at_once_lets_go_of_the_session() -> None:
    """Also one whose first event was never waited for is closed."""
    closed: list[EventReader] = []
    async with await Session.open(MemoryStore(), "one") as session:
        reader = EventReader(session, 0, 10, on_close=closed.append)
        subscriptions = Subscriptions(Outbox(most_frames=10, most_chars=1_000))

        subscriptions.begin("one", 0, reader)
        subscriptions.end("one")
        for _ in range(3):
            await asyncio.sleep(0)

        assert closed == [reader]


async def test_a_slow_reader_is_cut_and_goes_on_where_it_was(runtime: Runtime) -> None:
    """What a client has not read is bounded; it is told of the gap and can fetch all it missed."""
    async with wired(runtime, most_frames=4) as wire:
        await wire.ask("session.create", ONE)
        await wire.ask("events.subscribe", ONE)
        assert (await wire.events("one").get())["seq"] == 1
        wire.may_read.clear()
        for _ in range(40):
            await runtime.ask("tools.call", call("stepping"))
        wire.may_read.set()

        seen = 1
        while (event := await wire.events("one").get())["kind"] != "events.gap":
            seen += 1
            assert event["seq"] == seen
        last = (await runtime.ask("session.get", ONE)).last_seq
        assert event["seq"] == seen < last

        await wire.ask("events.subscribe", {**ONE, "after": seen})
        missed = [(await wire.events("one").get())["seq"] for _ in range(last - seen)]
        assert missed == list(range(seen + 1, last + 1))


async def test_a_client_that_does_not_read_is_not_read(runtime: Runtime) -> None:
    """Answers are never dropped; instead the client's next frame is not taken."""
    peer = Peer(runtime, most_frames=3)
    for _ in range(2):
        await peer.receive(b"{}")
    late = asyncio.ensure_future(peer.receive(b"{}"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not late.done()

    frames = peer.frames()
    told = [await anext(frames) for _ in range(3)]

    await late
    assert all(json.loads(frame)["error"]["code"] == -32600 for frame in told)


async def test_too_many_calls_are_refused_and_the_rest_is_answered(runtime: Runtime) -> None:
    """A client's calls are bounded; what ends them still goes through."""
    async with wired(runtime, max_requests=1) as wire:
        await wire.ask("session.create", ONE)
        running = await begin_endless(wire)

        with pytest.raises(Refused) as told:
            await wire.ask("tools.call", call("broken"))

        assert told.value.kind == "unavailable"
        await wire.notify("tools.call", call("greet", arguments={"name": "Eve"}))
        await wire.ask("$/cancel", {"id": running})
        await wire.end(running)
        assert (await wire.ask("tools.call", call("broken")))["status"] == "failed"
        kept = (await wire.ask("events.list", ONE))["events"]
        assert "greet" not in {each["data"].get("name") for each in kept}


async def test_a_call_may_be_asked_for_without_an_answer(runtime: Runtime) -> None:
    """A notification is done like a request, and not answered."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        await wire.ask("events.subscribe", ONE)
        await wire.notify("tools.call", call("greet", arguments={"name": "Ada"}))

        while (event := await wire.events("one").get())["kind"] != "tool.invoked":
            pass

        assert event["data"]["value"] == "Hello, Ada!"
        assert wire.complaints.empty()


async def test_leaving_is_not_cancelling(runtime: Runtime) -> None:
    """A call goes on when its client is gone."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        await begin_endless(wire, call_id="left-1")

    told = await runtime.ask("tools.cancel", {**ONE, "call_id": "left-1"})

    assert told.was_running
