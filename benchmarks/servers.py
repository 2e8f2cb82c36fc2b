"""One tool called over HTTP by 32 clients: ours, the peers, and an echo that does nothing."""

import random
from contextlib import ExitStack

from harness import Bound, Spread
from report import quarters, table
from servers_contestants import (
    CLIENTS,
    OWNER,
    Contestant,
    Mcp,
    ModernMcp,
    OurRest,
    SessionMcp,
    echo,
)
from servers_hosts import ECHO, FASTMCP, HOSTS, MCP, MCP_SESSIONS, OUR_MCP, OURS
from servers_load import hosted, install_wrk

TIMES_FASTMCP = 5.0
# A request here is authenticated, checked against its schema, decided, run and recorded twice in a
# hash chain that is read inside the measurement; the echo does none of it. Requests go through the
# public parts of Starlette and uvicorn alone.
OF_ECHO = 0.35
TIMES_MCP = 1.3


def run(quick: bool) -> list[Bound]:
    """Load every server in turns, and compare within each round."""
    install_wrk()
    rounds, seconds = (3, 1) if quick else (15, 1)
    with ExitStack() as stack:
        hosts = {name: stack.enter_context(hosted(name)) for name in HOSTS}
        bare, ours = echo(hosts[ECHO]), OurRest(hosts[OURS])
        fast = [kind("fastmcp", hosts[FASTMCP]) for kind in (Mcp, ModernMcp)]
        plain = [SessionMcp("mcp", hosts[MCP_SESSIONS]), ModernMcp("mcp", hosts[MCP])]
        route = [kind("toolcrib", hosts[OUR_MCP], OWNER) for kind in (SessionMcp, ModernMcp)]
        contestants = [bare, ours, *route, *plain, Mcp("mcp", hosts[MCP]), *fast]
        _rounds(contestants, rounds, seconds)
    _print(contestants, rounds)
    return [
        *(_rate_bound(ours, each, TIMES_FASTMCP) for each in fast),
        _rate_bound(ours, bare, OF_ECHO),
        *(_cost_bound(*pair, TIMES_MCP) for pair in zip(route, plain, strict=True)),
    ]


def _rounds(contestants: list[Contestant], rounds: int, seconds: int) -> None:
    order, rng = list(contestants), random.Random(1)
    for each in order:
        each.measure(1)
        each.rounds.clear()
    for _ in range(rounds):
        rng.shuffle(order)
        for each in order:
            each.measure(seconds)


def _rate_bound(mine: Contestant, theirs: Contestant, at_least: float) -> Bound:
    pairs = zip(mine.rounds, theirs.rounds, strict=True)
    ratio = Spread.of([one.rate / other.rate for one, other in pairs]).median
    promise = f"{mine.name}, {CLIENTS} clients: at least {at_least:g}x the rate of {theirs.name}"
    return Bound(promise, f"{ratio:.2f}x", ratio >= at_least)


def _cost_bound(mine: Contestant, theirs: Contestant, at_most: float) -> Bound:
    pairs = zip(mine.rounds, theirs.rounds, strict=True)
    ratio = Spread.of([one.cpu_us / other.cpu_us for one, other in pairs]).median
    promise = f"{mine.name}: at most {at_most:g}x the CPU time of {theirs.name}"
    return Bound(promise, f"{ratio:.2f}x", ratio <= at_most)


def _print(contestants: list[Contestant], rounds: int) -> None:
    rows: list[list[str]] = []
    for each in contestants:
        rate = Spread.of([one.rate for one in each.rounds])
        cpu = Spread.of([one.cpu_us for one in each.rounds])
        p50, p99 = (
            Spread.of([getattr(one.load, name) for one in each.rounds]).median
            for name in ("p50_ms", "p99_ms")
        )
        rows.append(
            [
                each.name,
                f"{rate.median:,.0f}",
                quarters(rate, 0),
                f"{cpu.median:.0f}",
                quarters(cpu, 0),
                f"{p50:.2f}",
                f"{p99:.2f}",
            ]
        )
    table(
        f"A tool over HTTP, {CLIENTS} clients of wrk, {rounds} interleaved rounds",
        ["server", "requests/s", "IQR", "CPU us/request", "IQR", "p50 ms", "p99 ms"],
        rows,
    )
