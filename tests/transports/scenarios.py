"""What every transport is put through. Each gives what the client was told, as JSON."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tests.transports.shop import HUGE, LARGE
from tests.transports.suite import Driver, Json, until


async def success(driver: Driver) -> Json:
    told = await driver.call("greet", {"name": "Zoë 🐚"})

    assert (told["status"], told["value"], told["text"]) == (
        "completed",
        "Hello, Zoë 🐚!",
        "Hello, Zoë 🐚!",
    )
    return told


async def handler_error(driver: Driver) -> Json:
    told = await driver.call("broken", {})

    assert told["failure"]["kind"] == "tool_error"
    assert "the till is jammed" in told["text"]
    return told


async def timeout(driver: Driver) -> Json:
    told = await driver.call("slow", {})

    assert told["failure"]["kind"] == "timeout"
    return told


async def invalid_input(driver: Driver) -> Json:
    told = await driver.call("greet", {"name": 5, "more": True})

    assert told["failure"]["kind"] == "invalid_arguments"
    assert {each["pointer"] for each in told["failure"]["faults"]} >= {"/name"}
    return told


async def denied_by_policy(driver: Driver) -> Json:
    told = await driver.call("forbidden", {"name": "Eve"})

    assert told["failure"]["kind"] == "not_permitted"
    return told


async def unknown_tool(driver: Driver) -> Json:
    told = await driver.call("nowhere", {})

    assert told["failure"]["kind"] == "not_found"
    return told


async def waiting_then_approved(driver: Driver) -> Json:
    waiting = await driver.call("guarded", {"name": "Ada"})
    assert waiting["status"] == "waiting"
    assert await driver.pending() == [waiting["approval_id"]]

    await driver.decide(waiting["approval_id"], "approve")
    done = await driver.call("guarded", {"name": "Ada"}, call_id=waiting["call_id"])

    assert (done["status"], done["value"]) == ("completed", "Hello, Ada!")
    assert done["call_id"] == waiting["call_id"]
    return [waiting, done]


async def waiting_then_denied(driver: Driver) -> Json:
    waiting = await driver.call("guarded", {"name": "Ada"})

    await driver.decide(waiting["approval_id"], "deny")
    done = await driver.call("guarded", {"name": "Ada"}, call_id=waiting["call_id"])

    assert done["failure"]["kind"] == "denied"
    return [waiting, done]


async def large_output(driver: Driver) -> Json:
    told = await driver.call("large", {})

    assert told["value"] == {"text": LARGE, "none": None, "number": 1.5}
    return told


async def huge_output(driver: Driver) -> Json:
    told = await driver.call("huge", {})

    assert told["status"] == "completed"
    assert len(told["text"]) < len(HUGE)
    assert await driver.artifact(told["artifact_id"]) == HUGE
    return told


async def metadata(driver: Driver) -> Json:
    told = await driver.call("annotated", {})

    assert (told["value"], told["metadata"]) == ("kept", {"source": "till 3", "pages": [1, 2]})
    return told


async def progress(driver: Driver) -> Json:
    async with aclosing(driver.events()) as events:
        told, heard = await asyncio.gather(
            driver.call("stepping", {}, call_id="stepping-1"), until(events, "tool.invoked")
        )

    assert told["status"] == "completed"
    assert [each["seq"] for each in heard] == list(range(1, len(heard) + 1))
    assert {"call.started", "tool.progress", "tool.output"} <= {each["kind"] for each in heard}
    return [told, heard]


async def cancel(driver: Driver) -> Json:
    async with aclosing(driver.events()) as events:
        running = asyncio.ensure_future(driver.call("endless", {}, call_id="endless-1"))
        await until(events, "tool.output")
        await driver.cancel("endless-1")
        told = await running

    assert told["failure"]["kind"] == "cancelled"
    return told


SCENARIOS = {
    each.__name__: each
    for each in (
        success,
        handler_error,
        timeout,
        invalid_input,
        denied_by_policy,
        unknown_tool,
        waiting_then_approved,
        waiting_then_denied,
        large_output,
        huge_output,
        metadata,
        progress,
        cancel,
    )
}


async def prompts(driver: Driver) -> Json:
    """A model calls a tool, and then one that takes an approval, which is given meanwhile."""
    first = await driver.prompt("Greet Ada.")
    async with aclosing(driver.events()) as events:
        second = asyncio.ensure_future(driver.prompt("Greet Bob."))
        await until(events, "approval.requested")
        for approval_id in await driver.pending():
            await driver.decide(approval_id, "approve")
        heard = await until(events, "prompt.answered")
    told = await second

    assert (first["status"], first["text"]) == ("completed", "Ada was greeted.")
    assert (told["status"], told["text"]) == ("completed", "Bob was greeted.")
    invoked = [each["data"]["value"] for each in heard if each["kind"] == "tool.invoked"]
    assert invoked == ["Hello, Bob!"]
    return [first, told]
