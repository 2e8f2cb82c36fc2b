"""What a replica costs while nothing happens: with few and with many sessions and waiting turns.

The replica is `toolcrib serve` on PostgreSQL. Waiting turns have a request in the inbox and a
deadline in a day. Queries are the transactions that PostgreSQL counts: what a replica asks without
a transaction of its own is one each.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from databases import free_port, postgres_server, tree_seconds
from harness import Bound
from report import table

from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key

FEW, MANY = 100, 10_000
TIMES_FEW = 1.5
CORE_PERCENT = 1.0
"""So much of a core is little enough, whatever it is a multiple of."""
SECONDS, QUICK_SECONDS = 62.0, 32.0
"""More than twice as long as the longest pause between two looks at the tables."""
SETTLE_SECONDS = 6.0

_SESSIONS = """
INSERT INTO sessions (session_id, born, created_at, settings, head_hash, fence)
SELECT $1 || n, floor(toolcrib_now() / 604800)::integer, toolcrib_now() - n, '{}',
    decode(repeat('00', 32), 'hex'), nextval('fences')
FROM generate_series(1, $2::integer) n
"""
_APPROVALS = """
INSERT INTO approvals (session, approval_id, digest, state, request, deadline)
SELECT number, 'apr_' || session_id, repeat('d', 64), 'pending',
    convert_to(repeat('r', 800), 'UTF8'), toolcrib_now() + 86400
FROM sessions WHERE session_id LIKE 'waiting_%'
"""
_TURNS = """
INSERT INTO turns (turn_id, session_id, state, request, pending, wake_at, due_at, created_at,
    changed_at)
SELECT 'turn_' || session_id, session_id, 'waiting', convert_to(repeat('p', 300), 'UTF8'),
    ARRAY['apr_' || session_id], toolcrib_now() + 86400, toolcrib_now() + 86400, toolcrib_now(),
    toolcrib_now()
FROM sessions WHERE session_id LIKE 'waiting_%'
"""
_COUNTED = """
SELECT xact_commit + xact_rollback, tup_returned + tup_fetched FROM pg_stat_database
WHERE datname = current_database()
"""
_BACKENDS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
"""


@dataclass(frozen=True, slots=True)
class Count:
    """What was used so far."""

    queries: int
    rows: int
    replica: float
    database: float
    at: float


@dataclass(frozen=True, slots=True)
class Idle:
    """What a replica used in a second."""

    queries: float
    rows: float
    replica_percent: float
    """Of a core."""
    database_percent: float


async def _fill(url: str, count: int) -> None:
    """So many idle sessions, and so many with a turn that waits."""
    await asyncio.to_thread(lambda: PostgresStore(url).close())
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_SESSIONS, "idle_", count)
        await connection.execute(_SESSIONS, "waiting_", count)
        await connection.execute(_APPROVALS)
        await connection.execute(_TURNS)
        # As after some hours: else the database would do it just now.
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


@contextmanager
def _replica(url: str, folder: str) -> Generator["subprocess.Popen[bytes]"]:
    port = free_port()
    program = Path(sys.executable).with_name("toolcrib")
    command = [str(program), "serve", "--port", str(port), "--adapter", "idle_model:adapter"]
    environment = {name: text for name, text in os.environ.items() if "TOOLCRIB" not in name}
    environment |= {
        "TOOLCRIB_STORE": url,
        "TOOLCRIB_STORE_KEY": new_key(),
        "PYTHONPATH": str(Path(__file__).parent),
        "HOME": folder,
    }
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=quiet, stderr=quiet, stdin=quiet
    )
    try:
        _wait_until_ready(child, f"http://127.0.0.1:{port}/healthz")
        yield child
    finally:
        child.terminate()
        child.wait()


def _wait_until_ready(child: "subprocess.Popen[bytes]", url: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and child.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise SystemExit("the replica does not serve")


async def _count(connection: "asyncpg.Connection[asyncpg.Record]", pid: int) -> Count:
    row = await connection.fetchrow(_COUNTED)
    assert row is not None
    backends = await connection.fetch(_BACKENDS)
    database = sum(tree_seconds(each[0]) for each in backends)
    return Count(row[0], row[1], tree_seconds(pid), database, time.perf_counter())


async def _measure(url: str, pid: int, seconds: float) -> Idle:
    connection = await asyncpg.connect(url)
    try:
        await asyncio.sleep(SETTLE_SECONDS)
        began = await _count(connection, pid)
        await asyncio.sleep(seconds)
        ended = await _count(connection, pid)
    finally:
        await connection.close()
    wall = ended.at - began.at
    return Idle(
        (ended.queries - began.queries) / wall,
        (ended.rows - began.rows) / wall,
        100 * (ended.replica - began.replica) / wall,
        100 * (ended.database - began.database) / wall,
    )


def run(quick: bool) -> list[Bound]:
    """Few and many in databases of their own, one after the other."""
    seconds = QUICK_SECONDS if quick else SECONDS
    found: dict[int, Idle] = {}
    with postgres_server() as server:
        for count in (FEW, MANY):
            url = server.database()
            asyncio.run(_fill(url, count))
            with tempfile.TemporaryDirectory() as folder, _replica(url, folder) as child:
                found[count] = asyncio.run(_measure(url, child.pid, seconds))
            asyncio.run(_check_waiting(url, count))
    rows = [
        [
            f"{count:,} and {count:,}",
            f"{each.queries:.1f}",
            f"{each.rows:,.0f}",
            f"{each.replica_percent:.2f}",
            f"{each.database_percent:.2f}",
        ]
        for count, each in found.items()
    ]
    table(
        f"A replica on which nothing happens, {seconds:.0f} s",
        ["idle sessions, waiting turns", "queries/s", "rows read/s", "CPU %", "database CPU %"],
        rows,
    )
    few, many = found[FEW], found[MANY]
    return [
        _bound("queries", many.queries, few.queries, 0.0),
        _bound("CPU of the replica", many.replica_percent, few.replica_percent, CORE_PERCENT),
        _bound("CPU of the database", many.database_percent, few.database_percent, CORE_PERCENT),
    ]


async def _check_waiting(url: str, count: int) -> None:
    """They still wait: nobody took one up or gave one away."""
    connection = await asyncpg.connect(url)
    try:
        waiting = await connection.fetchval("SELECT count(*) FROM turns WHERE state = 'waiting'")
    finally:
        await connection.close()
    if waiting != count:
        raise SystemExit(f"{waiting} of {count} turns still wait")


def _bound(what: str, many: float, few: float, enough: float) -> Bound:
    promise = f"{MANY:,} idle sessions and waiting turns, {what}: at most {TIMES_FEW:g}x of {FEW}"
    if enough:
        promise += f", or {enough:g} % of a core"
    return Bound(
        promise,
        f"{many:.2f} after {few:.2f}",
        many <= max(enough, TIMES_FEW * few),
    )
