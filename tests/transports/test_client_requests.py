"""Tools that a client brings and runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.transports.in_process_client import Wire, wired
from tests.transports.shop import shop
from toolcrib.runtime.runtime import Runtime

ONE = {"session_id": "one"}
MINE: dict[str, Any] = {
    "name": "mine",
    "description": "A tool of the client.",
    "parameters": {"type": "object"},
}


@pytest.fixture
async def runtime() -> AsyncGenerator[Runtime]:
    async with shop(drain_seconds=0.0) as started:
        yield started


def call(name: str, **more: Any) -> dict[str, Any]:
    return {**ONE, "name": name, **more}


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
