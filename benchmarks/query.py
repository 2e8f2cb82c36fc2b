"""The first page of every kind of query over a million calls, and their sums."""

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

from harness import Bound
from report import table

from toolcrib.failures import FAILURE_KINDS
from toolcrib.store import SqliteStore
from toolcrib.store.call_query import CallQuery, SumKey
from toolcrib.store.sqlite_calls import COLUMNS, number_of

CALLS = 1_000_000
FEW_CALLS = 100_000
SECONDS = 1.0
ROUNDS = 3

FILTERS: dict[str, Any] = {
    "since": 1_000_000.0 + CALLS / 2,
    "until": 1_000_000.0 + CALLS / 2,
    "principal": "p1",
    "owner": "p1",
    "tool": "t1*",
    "source": "s1",
    "statuses": ("failed", "denied"),
    "failure": "tool_error",
    "decision": "denied",
    "decided_by": "grant",
    "approver": "p2",
    "session_id": "ses1",
    "min_cost": 0.005,
}
NOTHING: list[dict[str, Any]] = [
    {"decision": "expired"},
    {"decided_by": "timeout"},
    {"source": "nowhere"},
    {"principal": "p1", "source": "nowhere"},
    {"tool": "t1*", "decision": "expired"},
    {"min_cost": 100.0},
]
"""Queries that find nothing have to look at everything that might match."""


def _fill(path: Path, count: int) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'calls'"
        ).fetchall()
        connection.execute("BEGIN")
        # Made at once from all rows, an index takes a fraction of the time.
        for name, _ in found:
            connection.execute(f"DROP INDEX {name}")
        marks = ", ".join("?" * len(COLUMNS.split(", ")))
        connection.executemany(
            f"INSERT INTO calls ({COLUMNS}) VALUES ({marks})", _rows(connection, count)
        )
        for _, statement in found:
            connection.execute(statement)
        # A session so long that its calls are looked for among all.
        connection.execute(
            "INSERT INTO sessions VALUES ('ses1', 1.0, '{}', ?, '', 1, NULL, 0, 'p1')", (count,)
        )
        connection.execute("COMMIT")


def _rows(connection: sqlite3.Connection, count: int) -> Iterator[tuple[object, ...]]:
    """Calls of 50 people with 200 tools in 2,000 sessions; every tenth is a request to a model."""
    people = [number_of(connection, "actor", f"p{n}") for n in range(50)]
    tools = [number_of(connection, "tool", f"t{n}") for n in range(200)]
    sources = [number_of(connection, "source", f"s{n}") for n in range(5)]
    sessions = [number_of(connection, "session", f"ses{n}") for n in range(2_000)]
    model = number_of(connection, "model", "m")
    drawn = random.Random(1)
    tool_error = FAILURE_KINDS.index("tool_error")
    for n in range(1, count + 1):
        is_model = n % 10 == 0
        status = 0 if is_model else drawn.choices([0, 1, 2, 3], [90, 7, 2, 1])[0]
        # Few people make most of the calls.
        who = people[int(drawn.random() ** 3 * len(people))]
        decided = (1, 0, people[2]) if status == 2 else (None, None, None)
        yield (
            *(n, drawn.choice(sessions), n, n, int(is_model), 1_000_000.0 + n, status),
            *(None if is_model else f"call_{n}", who, who, None),
            *(None if is_model else drawn.choice(tools), drawn.choice(sources)),
            *(model if is_model else None, tool_error if status == 1 else None),
            *(*decided, drawn.random(), 0.0, None, 0),
            *((10, 5, drawn.randrange(10**7)) if is_model else (None, None, None)),
            None,
        )


def _slowest(store: SqliteStore, queries: list[dict[str, Any]]) -> tuple[float, dict[str, Any]]:
    """The longest that a query takes in both orders, each the best of several rounds."""
    taken: list[tuple[float, dict[str, Any]]] = []
    for filters in queries:
        for oldest_first in (False, True):
            query = replace(CallQuery(**filters), kind=None, oldest_first=oldest_first)
            rounds: list[float] = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                store.calls(query)
                rounds.append(time.perf_counter() - began)
            taken.append((min(rounds), filters))
    return max(taken, key=lambda each: each[0])


def run(quick: bool) -> list[Bound]:
    """Every filter alone, with one and with two others; queries that find nothing; the sums."""
    count = FEW_CALLS if quick else CALLS
    kinds = {
        "one filter": [
            dict(each) for size in (0, 1) for each in combinations(FILTERS.items(), size)
        ],
        "two filters": [dict(each) for each in combinations(FILTERS.items(), 2)],
        "three filters": [dict(each) for each in combinations(FILTERS.items(), 3)],
        "nothing found": NOTHING,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.db"
        _fill(path, count)
        with SqliteStore(path) as store:
            slowest = {name: _slowest(store, queries) for name, queries in kinds.items()}
            sums: dict[str, float] = {}
            for key in get_args(SumKey):
                began = time.perf_counter()
                store.call_sums(CallQuery(), key)
                sums[key] = time.perf_counter() - began
    rows = [
        [name, str(len(kinds[name]) * 2), f"{seconds * 1e3:.1f}", ", ".join(filters) or "none"]
        for name, (seconds, filters) in slowest.items()
    ]
    rows += [[f"sums by {key}", "1", f"{seconds * 1e3:.1f}", "-"] for key, seconds in sums.items()]
    table(f"Queries over {count:,} calls", ["query", "queries", "slowest ms", "filters"], rows)
    worst = max(seconds for seconds, _ in slowest.values())
    return [
        Bound(
            f"first page of a query over {count:,} calls: at most {SECONDS:g} s",
            f"{worst:.3f} s",
            worst <= SECONDS,
        )
    ]
