"""The limits of one server: how many calls run there, how many wait, when it is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import Json, mounted, raw, stdio
from tests.runtime.host_runtime import new_session, serving
from toolcrib.errors import CallEnded
from toolcrib.host_tools import parse_host_tools
from toolcrib.mcp_client.load import CircuitTerms, ServerLimits, ServerLoad


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def load_of(clock: FakeClock | None = None, **limits: object) -> ServerLoad:
    return ServerLoad(ServerLimits(**limits), "`peer`", clock or FakeClock())  # pyright: ignore[reportArgumentType]


async def fine() -> str:
    return "fine"


async def gone() -> str:
    raise CallEnded("unavailable", "it disconnected")


async def wrong() -> str:
    raise CallEnded("tool_error", "no such file")


async def failure(load: ServerLoad, work: Callable[[], Awaitable[str]]) -> str:
    with pytest.raises(CallEnded) as ended:
        await load.run(work, None)
    return ended.value.failure.message


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 (nothing says when)
            await asyncio.sleep(0.001)


async def test_so_many_calls_run_at_once_and_so_many_wait() -> None:
    """The third of two waits its turn; when the queue is full, a call fails at once."""
    load = load_of(max_concurrent=2, max_queued=1)
    may_end, begun = asyncio.Event(), list[int]()

    async def slow() -> str:
        begun.append(load.running)
        await may_end.wait()
        return "done"

    calls = [asyncio.create_task(load.run(slow, None)) for _ in range(3)]
    await until(lambda: len(begun) == 2 and load.queued)
    refused = await failure(load, slow)
    assert refused == (
        "The MCP server `peer` is busy: 2 calls run there and 1 wait; try again later."
    )

    may_end.set()
    assert await asyncio.gather(*calls) == ["done"] * 3
    assert max(begun) == 2
    assert (load.running, load.queued) == (0, 0)


async def test_a_cancelled_wait_gives_its_place_back() -> None:
    """A caller that leaves the queue holds up nobody."""
    load = load_of(max_concurrent=1)
    may_end = asyncio.Event()

    async def slow() -> str:
        await may_end.wait()
        return "done"

    first = asyncio.create_task(load.run(slow, None))
    second = asyncio.create_task(load.run(slow, None))
    await until(lambda: load.queued)
    second.cancel()
    await asyncio.wait([second])
    may_end.set()
    await first
    assert await load.run(fine, None) == "fine"
    assert (load.running, load.queued) == (0, 0)


async def test_the_circuit_opens_after_failures_in_a_row_and_one_call_tries_it() -> None:
    """Open: calls fail at once and say when it is tried again. Then one call is let through; its
    success closes the circuit, its failure opens it for another while.
    """
    clock = FakeClock()
    load = load_of(clock, circuit=CircuitTerms(failures=2, seconds=30))
    await failure(load, gone)
    await load.run(fine, None)
    await failure(load, gone)
    assert load.circuit == "closed"
    await failure(load, gone)

    assert (load.circuit, load.open_until) == ("open", 1_030.0)
    refused = await failure(load, fine)
    assert "failed 2 times in a row and is left alone" in refused
    assert "tried again in 30 seconds" in refused

    clock.now = 1_030.0
    assert load.circuit == "trial"
    assert await failure(load, gone) == "it disconnected"
    assert (load.circuit, load.open_until) == ("open", 1_060.0)

    clock.now = 1_060.0
    may_end = asyncio.Event()

    async def slow() -> str:
        await may_end.wait()
        return "done"

    trial = asyncio.create_task(load.run(slow, None))
    await until(lambda: load.running)
    assert "when the call that tries it has ended" in await failure(load, fine)
    may_end.set()
    await trial
    assert load.circuit == "closed"
    assert await load.run(fine, None) == "fine"


async def test_failures_of_tools_say_nothing_about_the_server() -> None:
    """A tool that fails has answered, and a call that somebody cancels says nothing."""
    load = load_of(circuit=CircuitTerms(failures=1))
    await failure(load, wrong)
    cancelled = asyncio.create_task(load.run(asyncio.Event().wait, None))
    await until(lambda: load.running)
    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert load.circuit == "closed"


async def test_a_timeout_counts_as_a_failure() -> None:
    """A server that does not answer in time is as good as away."""
    load = load_of(circuit=CircuitTerms(failures=1))
    late = asyncio.create_task(load.run(asyncio.Event().wait, asyncio.get_running_loop().time()))
    await until(lambda: load.running)
    late.cancel()
    await asyncio.wait([late])

    assert load.circuit == "open"


FILE = """
mcp_servers:
  peer:
    command: peer
    max_concurrent: 4
    max_queued: 8
    circuit: {failures: 5, seconds: 10}
    ping: 15
"""


def test_a_file_has_the_limits_of_servers() -> None:
    """Every key, typed; seconds of the circuit have a default."""
    [server] = parse_host_tools(FILE).mcp_servers
    assert server.terms.limits == ServerLimits(
        max_concurrent=4, max_queued=8, circuit=CircuitTerms(failures=5, seconds=10), ping=15
    )


@pytest.mark.wire
async def test_a_server_that_does_not_answer_is_left_alone() -> None:
    """A real call that times out opens the circuit; `servers.list` says so."""
    limits = ServerLimits(circuit=CircuitTerms(failures=1, seconds=600))
    server = raw("silent", "read", timeout=0.2, limits=limits)
    async with serving(mcp_servers=[server]) as runtime:
        session = await new_session(runtime)
        call: Json = {"session_id": session, "arguments": {}}
        late = await runtime.ask("tools.call", {**call, "name": "raw_silent"})
        refused = await runtime.ask("tools.call", {**call, "name": "raw_read"})
        [facts] = (await runtime.ask("servers.list", {})).servers

    assert late.failure.kind == "timeout"
    assert refused.failure.kind == "unavailable"
    assert "is left alone; it is tried again in" in refused.text
    assert (facts.circuit, facts.failures, facts.running) == ("open", 1, 0)
    assert facts.tried_again_at is not None


@pytest.mark.wire
async def test_servers_are_pinged_where_the_protocol_has_it() -> None:
    """The answer is noted. The newer protocol has no ping, so none is sent there."""
    limits = ServerLimits(ping=0.01)
    async with mounted(stdio("peer", "older", limits=limits)) as peer:
        await until(lambda: peer.server.history.last_ping_at)
        assert peer.server.fault is None
    async with mounted(stdio("peer", "newer", limits=limits)) as peer:
        assert (await peer.call("peer_add", a=1, b=2)).ok
        assert peer.server.history.last_ping_at is None
