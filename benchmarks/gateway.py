"""A tool called straight and through gateways, and what listing many mounted tools takes.

One client of the SDK calls one after the other: the server itself, ours with either ledger, a
FastMCP proxy as it is and with a shared session, and ContextForge. The CPU time of a gateway is
compared with the floor: that of the client and of the server in the straight call, because a
gateway is one of each.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from gateway_forge import TOOL, forge, is_installed
from gateway_hosts import MANY, MEMORY, PROXY, SERVER, SHARED_PROXY, SQLITE, TOKEN
from harness import Bound, Spread
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from report import quarters, table
from servers_load import Host
from workload import PAYLOADS, expected

TIMES_FLOOR = 1.3
LIST_MS = 20.0
FORGE = "contextforge"
_HERE = Path(__file__).parent
_LISTS = 20


class Route:
    """One way to the tool, with what its rounds cost."""

    def __init__(self, name: str, host: Host, tool: str, token: str | None = None) -> None:
        self.name = name
        self.host = host
        self.tool = tool
        self.token = token
        self.client: Any = None
        self.p50_ms: list[float] = []
        self.cpu_ms: list[float] = []
        self.client_ms: list[float] = []

    async def probe(self) -> None:
        """Show that the tool is really run."""
        for payload in PAYLOADS[:3]:
            result = await self.client.call_tool(self.tool, json.loads(payload))
            if _value(result) != expected(payload):
                raise SystemExit(f"{self.name} answered {result!r}")

    async def measure(self, calls: int) -> None:
        """One round of calls, one after the other."""
        await self.probe()
        times: list[float] = []
        arguments = [json.loads(payload) for payload in PAYLOADS]
        server, own = self.host.cpu_seconds(), time.process_time()
        for number in range(calls):
            began = time.perf_counter()
            await self.client.call_tool(self.tool, arguments[number % len(arguments)])
            times.append(time.perf_counter() - began)
        self.client_ms.append((time.process_time() - own) / calls * 1e3)
        self.cpu_ms.append((self.host.cpu_seconds() - server) / calls * 1e3)
        self.p50_ms.append(statistics.median(times) * 1e3)


def _value(result: Any) -> Any:
    if result.structured_content is not None:
        return result.structured_content
    return json.loads(result.content[0].text)


@contextmanager
def hosted(name: str, upstream: str = "") -> Generator[Host]:
    """Start a process of `gateway_hosts`, and end it."""
    command = [sys.executable, str(_HERE / "gateway_hosts.py"), name, upstream]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise SystemExit(f"{name} did not start; its error is above")
        yield Host(url, process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def connected(route: Route) -> AsyncGenerator[None]:
    """Give a route its client, on one connection for all rounds."""
    headers = {} if route.token is None else {"Authorization": f"Bearer {route.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(route.host.url, http_client=http)) as route.client,
    ):
        await route.client.list_tools()
        yield


def run(quick: bool) -> list[Bound]:
    """Call every route in turns, and compare within each round."""
    rounds, calls = (3, 60) if quick else (12, 150)
    with ExitStack() as stack:
        server = stack.enter_context(hosted(SERVER))
        straight = Route("straight", server, "search")
        ours = [
            Route(name, stack.enter_context(hosted(name, server.url)), "s0_search", TOKEN)
            for name in (MEMORY, SQLITE)
        ]
        peers = [
            Route(name, stack.enter_context(hosted(name, server.url)), "search")
            for name in (SHARED_PROXY, PROXY)
        ]
        if is_installed():
            other = stack.enter_context(forge(server.url))
            peers.append(Route(FORGE, other.host, TOOL, other.token))
        else:
            print(f"\n{FORGE} is left out: make .venv-forge/.installed installs it")
        asyncio.run(_rounds([straight, *ours, *peers], rounds, calls))
        _print(straight, [*ours, *peers], rounds)
        many = stack.enter_context(hosted(MANY, server.url))
        listed = asyncio.run(_list_costs(Route(MANY, many, "", TOKEN), rounds))
    return [*(_cpu_bound(each, straight) for each in ours), _list_bound(listed)]


async def _rounds(routes: list[Route], rounds: int, calls: int) -> None:
    async with AsyncExitStack() as stack:
        for each in routes:
            await stack.enter_async_context(connected(each))
            await each.probe()
        order, rng = list(routes), random.Random(1)
        for _ in range(rounds):
            rng.shuffle(order)
            for each in order:
                # The slowest would take longer than all others together.
                await each.measure(calls // 10 if each.name in (PROXY, FORGE) else calls)


async def _list_costs(route: Route, rounds: int) -> list[float]:
    """The milliseconds of CPU time of one `tools/list`, when the session is open. Not of wall time:
    the client takes longer to read the answer than the gateway to make it.
    """
    costs: list[float] = []
    async with connected(route):
        for _ in range(rounds):
            began = route.host.cpu_seconds()
            for _ in range(_LISTS):
                listed = await route.client.list_tools(cache_mode="bypass")
            costs.append((route.host.cpu_seconds() - began) / _LISTS * 1e3)
            if len(listed.tools) != 100:
                raise SystemExit(f"{route.name} lists {len(listed.tools)} tools")
    return costs


def floor_of(straight: Route) -> list[float]:
    """The CPU time of the client and the server of a straight call, round by round."""
    return [sum(pair) for pair in zip(straight.client_ms, straight.cpu_ms, strict=True)]


def _cpu_bound(route: Route, straight: Route) -> Bound:
    pairs = zip(route.cpu_ms, floor_of(straight), strict=True)
    ratio = Spread.of([mine / floor for mine, floor in pairs]).median
    promise = f"{route.name}: own CPU per call at most {TIMES_FLOOR:g}x of an SDK client and server"
    return Bound(promise, f"{ratio:.2f}x", ratio <= TIMES_FLOOR)


def _list_bound(costs: list[float]) -> Bound:
    spread = Spread.of(costs)
    promise = f"100 mounted tools of 10 servers listed in under {LIST_MS:g} ms, warm"
    return Bound(promise, f"{spread.median:.1f} ms", spread.median < LIST_MS)


def _print(straight: Route, others: list[Route], rounds: int) -> None:
    floor, p50 = floor_of(straight), Spread.of(straight.p50_ms)
    head = ["route", "p50 ms", "IQR", "x straight", "gateway CPU ms", "x floor"]
    rows = [["straight", f"{p50.median:.1f}", quarters(p50), "1.0", "", ""]]
    for each in others:
        p50, cpu = Spread.of(each.p50_ms), Spread.of(each.cpu_ms)
        slower = zip(each.p50_ms, straight.p50_ms, strict=True)
        times = Spread.of([mine / theirs for mine, theirs in slower])
        costs = zip(each.cpu_ms, floor, strict=True)
        over = Spread.of([mine / least for mine, least in costs])
        rows.append(
            [
                each.name,
                f"{p50.median:.1f}",
                quarters(p50),
                f"{times.median:.1f}",
                f"{cpu.median:.1f}",
                f"{over.median:.2f}",
            ]
        )
    table(f"A tool through a gateway, one client, {rounds} interleaved rounds", head, rows)
    client, server = Spread.of(straight.client_ms), Spread.of(straight.cpu_ms)
    print(f"\n  floor: {client.median:.1f} ms of an SDK client, {server.median:.1f} ms of a server")
