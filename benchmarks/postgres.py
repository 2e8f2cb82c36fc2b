"""Durable calls of 32 sessions on PostgreSQL, SQLite beside it; then by 1, 2 and 4 replicas.

Every replica is a process with 32 sessions of its own. Whatever it acknowledged is counted in the
database afterwards.
"""

import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from databases import PostgresServer, postgres_server, server_seconds
from harness import Bound, Spread
from quiet import silence
from report import quarters, table
from workload import PAYLOADS, search

from toolcrib import Executor, Session, SqliteStore, tool
from toolcrib.store.store import Store

SESSIONS = 32
CALLS_A_SECOND = 2_500
CLIENT_MICROSECONDS = 250.0
TIMES_ALONE = 1.5
"""What a call may cost each of several replicas, as a multiple of what it costs one alone."""
REPLICAS = (1, 2, 4)
WARM_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """What some replicas did at the same time."""

    calls: int
    rate: float
    client_us: float
    """CPU time of the replicas per call."""
    server_us: float
    """CPU time of the database per call."""
    group: float
    """Calls in a transaction: a call has two commits."""


async def _serve(place: str, seconds: float) -> None:
    """Call for some seconds from the moment that a line comes, and say what it took."""
    store = _store(place)
    sessions = [await Session.open(store) for _ in range(SESSIONS)]
    executors = [Executor(session, tools=[tool(search)]) for session in sessions]
    done = await _call_until(executors, time.perf_counter() + WARM_SECONDS)
    print("ready", flush=True)
    sys.stdin.readline()
    transactions = _transactions(store)
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    calls = await _call_until(executors, began + seconds)
    wall, spent = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    transactions = _transactions(store) - transactions
    # The rows are counted when all is written, and before the sessions say that they were closed.
    for session in sessions:
        await session.close()
    store.close()
    print(json.dumps([calls, wall, cpu, transactions, done + calls]), flush=True)


def _store(place: str) -> Store:
    if place.startswith("postgresql:"):
        from toolcrib.store import PostgresStore

        return PostgresStore(place)
    return SqliteStore(place)


def _transactions(store: Store) -> int:
    count: int = getattr(store, "transactions", 0)
    return count


async def _call_until(executors: list[Executor], end: float) -> int:
    """Let every session call, one call after the other; how many calls were acknowledged."""

    async def caller(number: int, executor: Executor) -> int:
        count = 0
        while time.perf_counter() < end:
            outcome = await executor.call("search", PAYLOADS[(number + count) % len(PAYLOADS)])
            if not outcome.ok:
                raise SystemExit(f"the call failed: {outcome.text}")
            count += 1
        return count

    return sum(await asyncio.gather(*(caller(*each) for each in enumerate(executors))))


def _start(place: str, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, place, str(seconds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(pipe: IO[str] | None) -> str:
    line = pipe.readline() if pipe else ""
    if not line:
        raise SystemExit("a replica ended by itself; its error is above")
    return line


def _measure(server: PostgresServer | None, replicas: int, seconds: float) -> Run:
    """Start replicas on an empty store, let them go at once, and count what they left there."""
    with ExitStack() as stack:
        if server is None:
            place = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "ledger.db")
        else:
            place = server.database()
        children = [stack.enter_context(_start(place, seconds)) for _ in range(replicas)]
        for child in children:
            _line(child.stdout)
        before = server_seconds(server) if server else 0.0
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        told = [json.loads(_line(child.stdout)) for child in children]
        after = server_seconds(server) if server else 0.0
        if server is not None:
            asyncio.run(_check_rows(place, sum(each[4] for each in told)))
    calls = sum(each[0] for each in told)
    return Run(
        calls,
        sum(each[0] / each[1] for each in told),
        sum(each[2] for each in told) / calls * 1e6,
        (after - before) / calls * 1e6,
        2 * calls / max(1, sum(each[3] for each in told)),
    )


async def _check_rows(url: str, acknowledged: int) -> None:
    """Every call that was acknowledged has its start and its end in the ledger, and its index."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        for kind in ("call.started", "tool.invoked"):
            rows = await connection.fetchval("SELECT count(*) FROM records WHERE kind = $1", kind)
            if rows != acknowledged:
                raise SystemExit(f"{acknowledged} calls were acknowledged; {rows} have {kind}")
    finally:
        await connection.close()


def run(quick: bool) -> list[Bound]:
    """Every variant once a round, in a new order each time."""
    rounds, seconds, rng = (2, 2.0, random.Random(1)) if quick else (5, 3.0, random.Random(1))
    names = {"SQLite": 1, **{f"PostgreSQL, {count}": count for count in REPLICAS}}
    runs: dict[str, list[Run]] = {name: [] for name in names}
    with postgres_server() as server:
        order = list(names)
        for _ in range(rounds):
            rng.shuffle(order)
            for name in order:
                where = None if name == "SQLite" else server
                runs[name].append(_measure(where, names[name], seconds))
    table(
        f"Durable calls, {SESSIONS} sessions at each replica, {rounds} rounds",
        ["store, replicas", "calls/s", "IQR", "client CPU us", "IQR", "server CPU us", "a group"],
        [_row(name, each) for name, each in runs.items()],
    )
    return _bounds(runs)


def _row(name: str, runs: list[Run]) -> list[str]:
    rate, client = (
        Spread.of([each.rate for each in runs]),
        Spread.of([each.client_us for each in runs]),
    )
    server = Spread.of([each.server_us for each in runs]).median
    group = Spread.of([each.group for each in runs]).median
    shown = [name, f"{rate.median:,.0f}", quarters(rate, 0), f"{client.median:.0f}"]
    shown += [quarters(client, 0), f"{server:.0f}" if server else "-", f"{group:.0f} commits"]
    return shown


def _bounds(runs: dict[str, list[Run]]) -> list[Bound]:
    alone = runs["PostgreSQL, 1"]
    rate = Spread.of([each.rate for each in alone]).median
    client = Spread.of([each.client_us for each in alone]).median
    about = f"PostgreSQL, {SESSIONS} sessions on one replica"
    bounds = [
        Bound(
            f"{about}: at least {CALLS_A_SECOND:,} durable calls/s",
            f"{rate:,.0f} calls/s",
            rate >= CALLS_A_SECOND,
        ),
        Bound(
            f"{about}: at most {CLIENT_MICROSECONDS:g} us of client CPU a call",
            f"{client:.0f} us",
            client <= CLIENT_MICROSECONDS,
        ),
    ]
    for count in REPLICAS[1:]:
        pairs = zip(runs[f"PostgreSQL, {count}"], alone, strict=True)
        ratio = Spread.of([many.client_us / one.client_us for many, one in pairs]).median
        promise = f"PostgreSQL, {count} replicas: a call at most {TIMES_ALONE:g}x the client CPU"
        bounds.append(Bound(promise, f"{ratio:.2f}x", ratio <= TIMES_ALONE))
    return bounds


if __name__ == "__main__":
    silence()
    asyncio.run(_serve(sys.argv[1], float(sys.argv[2])))
