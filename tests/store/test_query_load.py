"""Queries over many calls: each reads an index, and answers at once."""

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from toolcrib.failures import FAILURE_KINDS
from toolcrib.store import SqliteStore
from toolcrib.store.call_query import CallQuery
from toolcrib.store.sqlite_call_reader import page_statements
from toolcrib.store.sqlite_calls import COLUMNS, number_of

CALLS = 50_000
SECONDS = 0.5

FILTERS: dict[str, Any] = {
    "since": 1_000_000.0 + CALLS / 2,
    "until": 1_000_000.0 + CALLS - 1,
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
    "min_cost": 0.001,
}
QUERIES: list[dict[str, Any]] = [
    {name: FILTERS[name] for name in names}
    for size in (0, 1, 2, 3)
    for names in combinations(FILTERS, size)
]
"""Every filter that is documented, with every one and two others."""


def fill(path: Path, count: int) -> None:
    """A store whose index has this many calls, a second apart."""
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        marks = ", ".join("?" * 26)
        connection.executemany(
            f"INSERT INTO calls ({COLUMNS}) VALUES ({marks})", _rows(connection, count)
        )
        # One session so long that its calls are looked for among all.
        connection.execute(
            "INSERT INTO sessions VALUES ('ses2', 1.0, '{}', 1000000, '', 1, NULL, 0, 'p1')"
        )
        connection.execute("COMMIT")


def _rows(connection: sqlite3.Connection, count: int) -> Iterator[tuple[object, ...]]:
    people = [number_of(connection, "actor", f"p{n}") for n in range(50)]
    tools = [number_of(connection, "tool", f"t{n}") for n in range(200)]
    sources = [number_of(connection, "source", f"s{n}") for n in range(5)]
    sessions = [number_of(connection, "session", f"ses{n}") for n in range(1_000)]
    model = number_of(connection, "model", "m")
    drawn = random.Random(1)
    tool_error = FAILURE_KINDS.index("tool_error")
    for n in range(1, count + 1):
        is_model = n % 10 == 0
        status = 0 if is_model else drawn.choices([0, 1, 2, 3], [90, 7, 2, 1])[0]
        who = drawn.choice(people)
        tool = None if is_model else drawn.choice(tools)
        source, asked = drawn.choice(sources), model if is_model else None
        decided = (1, 0, people[2]) if status == 2 else (None, None, None)
        yield (
            *(n, drawn.choice(sessions), n, n, int(is_model), 1_000_000.0 + n, status),
            *(None if is_model else f"call_{n}", who, who, None, tool, source, asked),
            *(tool_error if status == 1 else None, *decided, drawn.random(), 0.0, None, 0),
            *((10, 5, drawn.randrange(10**7)) if is_model else (None, None, None)),
            None,
        )


def test_no_documented_query_reads_more_than_an_index(sqlite_path: Path) -> None:
    """Each statement searches one index in its order: no scan of the table, no sorting. It has all
    that is filtered by, but for the calls of a short session, which are looked at one by one.
    """
    fill(sqlite_path, 1_000)

    with closing(sqlite3.connect(sqlite_path)) as connection:
        for filters in QUERIES:
            for oldest_first in (False, True):
                query = replace(CallQuery(**filters), oldest_first=oldest_first)
                is_short = "session_id" in filters
                for statement, parameters in page_statements(connection, query, None, 101):
                    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                    steps = [step for *_, step in plan]
                    assert not any("SCAN calls" in step for step in steps), (filters, steps)
                    assert not any("TEMP B-TREE" in step for step in steps), (filters, steps)
                    if is_short:
                        assert any("INDEX calls_by_session" in step for step in steps), steps
                        continue
                    assert any("USING COVERING INDEX calls_by" in step for step in steps), steps


def test_the_calls_of_a_long_session_are_found_by_an_index(sqlite_path: Path) -> None:
    """Neither are all its records read, nor are its calls sorted."""
    fill(sqlite_path, 5_000)

    with SqliteStore(sqlite_path) as store, closing(sqlite3.connect(sqlite_path)) as connection:
        query = CallQuery(session_id="ses2")
        ((statement, parameters),) = page_statements(connection, query, None, 101)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        steps = [step for *_, step in plan]
        assert any("USING COVERING INDEX calls_by_session" in step for step in steps)
        assert not any("TEMP B-TREE" in step for step in steps)
        listed = store.calls(query).items
        assert listed
        assert {row.session_id for row in listed} == {"ses2"}


@pytest.mark.load
def test_the_first_page_of_every_documented_query_comes_at_once(sqlite_path: Path) -> None:
    """Over 50,000 calls, each within half a second of CPU time; `make bench` has a million."""
    fill(sqlite_path, CALLS)

    with SqliteStore(sqlite_path) as store:
        for filters in QUERIES:
            began = time.process_time()
            store.calls(replace(CallQuery(**filters), kind=None))
            assert time.process_time() - began < SECONDS, filters
