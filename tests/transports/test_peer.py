"""One client of a runtime: many requests at once, events, and tools of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.transports.rpc import RpcError
from tests.transports.shop import shop
from tests.transports.wire import Wire, wired
from toolcrib.errors import Refused
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.transports.peer import Peer

ONE = {"session_id": "one"}
MINE: dict[str, Any] = {
    "name": "mine",
    "description": "A tool of the client.",
    "parameters": {"type": "object"},
}


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


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [("tools.nothing", None, -32601), ("__init__", {}, -32601)],
)
async def test_an_unknown_method_is_told(
    runtime: Runtime, method: str, params: Any, code: int
) -> None:
    """The code is the one of the specification."""
    async with wired(runtime) as wire:
        with pytest.raises(RpcError) as told:
            await wire.ask(method, params)

        assert told.value.code == code


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("tools.call", {}, "invalid"),
        ("ping", {"more": 1}, "invalid"),
        ("events.subscribe", {**ONE, "after": -1}, "invalid"),
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
async def test_a_principal_does_only_what_its_scopes_allow(
    runtime: Runtime, method: str, params: Any
) -> None:
    """Who may read may neither call nor decide nor run the client's tools."""
    async with wired(runtime, Principal("reader", frozenset({"read"}))) as wire:
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
        await wire.ask("session.create", ONE)
        await wire.ask("events.subscribe", {**ONE, "after": 1})
        await wire.ask("events.subscribe", {**ONE, "after": 1})
        await wire.ask("tools.call", call("broken"))
        last = (await wire.ask("session.get", ONE))["last_seq"]

        heard = [await wire.events("one").get() for _ in range(last - 1)]

        assert [each["seq"] for each in heard] == list(range(2, last + 1))
        await wire.ask("ping")
        assert wire.events("one").empty()


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
    async with wired(runtime, most_requests=1) as wire:
        await wire.ask("session.create", ONE)
        running = await begin_endless(wire)

        with pytest.raises(Refused) as told:
            await wire.ask("tools.call", call("broken"))

        assert told.value.kind == "unavailable"
        await wire.ask("$/cancel", {"id": running})
        await wire.end(running)
        assert (await wire.ask("tools.call", call("broken")))["status"] == "failed"


async def test_leaving_is_not_cancelling(runtime: Runtime) -> None:
    """A call goes on when its client is gone."""
    async with wired(runtime) as wire:
        await wire.ask("session.create", ONE)
        await begin_endless(wire, call_id="left-1")

    told = await runtime.ask("tools.cancel", {**ONE, "call_id": "left-1"})

    assert told.was_running


async def asked_for_mine(wire: Wire) -> tuple[Any, Any]:
    """A session with a tool of the client's, and its call that has come to the client."""
    await wire.ask("session.create", {**ONE, "client_tools": [MINE]})
    running = await wire.begin("tools.call", call("mine", arguments={"x": "ü"}))
    return running, await wire.told.get()


async def test_a_client_runs_the_tools_that_it_brings(runtime: Runtime) -> None:
    """R49: the client is asked to run its tool, and what it answers is the result."""
    async with wired(runtime) as wire:
        running, asked = await asked_for_mine(wire)

        assert asked["method"] == "client.call"
        assert asked["params"]["name"] == "mine"
        assert asked["params"]["arguments"] == {"x": "ü"}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"y": [1]}})

        assert (await wire.end(running))["value"] == {"y": [1]}


async def test_a_clients_error_is_its_tools_failure(runtime: Runtime) -> None:
    """An error is told as the failure of the tool, not of the runtime."""
    async with wired(runtime) as wire:
        running, asked = await asked_for_mine(wire)

        error = {"code": 1, "message": "out of paper"}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        told = await wire.end(running)

        assert told["failure"]["kind"] == "tool_error"
        assert "out of paper" in told["text"]


async def test_answers_that_nobody_waits_for_are_dropped(runtime: Runtime) -> None:
    """A made-up or repeated answer changes nothing."""
    async with wired(runtime) as wire:
        running, asked = await asked_for_mine(wire)

        strays: list[Any] = ["s99", 1, None, [1], {}]
        for stray in strays:
            await wire.send({"jsonrpc": "2.0", "id": stray, "result": "wrong"})
        for value in ("right", "too late"):
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": value})

        assert (await wire.end(running))["value"] == "right"
        assert await wire.ask("ping") == {}


async def test_a_cancelled_call_is_taken_back_from_the_client(runtime: Runtime) -> None:
    """The client hears that nobody wants its result any more."""
    async with wired(runtime) as wire:
        running, asked = await asked_for_mine(wire)

        await wire.ask("$/cancel", {"id": running})

        taken_back = await wire.told.get()
        assert (taken_back["method"], taken_back["params"]) == ("$/cancel", {"id": asked["id"]})
        assert (await wire.end(running))["failure"]["kind"] == "cancelled"


async def test_a_client_that_leaves_fails_its_call_and_may_come_back(runtime: Runtime) -> None:
    """The failure is typed; a client that attaches itself runs the calls from then on."""
    async with wired(runtime) as wire:
        await asked_for_mine(wire)
        following = runtime.service.follow("one", 0)
    told = await anext(each.data async for each in following if each.kind == "tool.invoked")
    following.close()
    assert told["failure"]["kind"] == "unavailable"

    async with wired(runtime) as wire:
        assert (await wire.ask("tools.call", call("mine")))["failure"]["kind"] == "unavailable"
        await wire.ask("client.attach", ONE)
        running = await wire.begin("tools.call", call("mine"))
        asked = await wire.told.get()
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": 5})

        assert (await wire.end(running))["value"] == 5
