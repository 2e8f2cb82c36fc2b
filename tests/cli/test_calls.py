"""`toolcrib calls`, `audit query` and `audit usage`: who called what, and what it took."""

import asyncio
import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.command import at_terminal
from tests.helpers.screen import WIDTHS, past_the_edge, screen_lines
from tests.store.facts import FakeClock
from tests.store.test_calls import TenCents, play
from toolcrib import Executor, Session, tool
from toolcrib.approval.caller import Caller
from toolcrib.cli.app import app
from toolcrib.store import SqliteStore


@pytest.fixture
def crib(sqlite_path: Path) -> Path:
    """A store with eight calls of two people, and two requests to models."""
    with SqliteStore(sqlite_path, clock=FakeClock(), prices=TenCents()) as store:
        asyncio.run(play(store, FakeClock()))
    return sqlite_path


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize("command", [["calls"], ["audit", "query"]])
def test_calls_of_all_sessions_by_filters(command: list[str], crib: Path) -> None:
    """Newcomers, what would matter most 3: by time, user, tool and end, in one command."""
    done = invoke(
        *[*command, "--since", "1970-01-01", "--by", "alice", "--tool", "d*"],
        *["--failed", "--store", crib, "--json"],
    )

    (row,) = json.loads(done.stdout)["calls"]
    assert (row["tool"], row["failure"], row["session_id"]) == ("double", "tool_error", "shop")


def test_the_table_has_a_line_for_each_call(crib: Path) -> None:
    """When, who, what, how it ended, how long it took, and who decided."""
    lines = invoke("calls", "--store", crib, "--oldest-first").stdout.splitlines()

    assert len(lines) == 8
    assert lines[3].split("\t") == [
        *("1970-01-12 13:47:10", "alice", "pay", "completed", "0.00s", "edited by carol")
    ]


def test_pages_go_on_after_a_cursor(crib: Path) -> None:
    """The cursor of a page is printed, and asks for the rest."""
    first = json.loads(invoke("calls", "--store", crib, "-n", "5", "--json").stdout)
    rest = invoke("calls", "--store", crib, "--cursor", first["cursor"], "--jsonl")

    rows = [*first["calls"], *map(json.loads, rest.stdout.splitlines())]
    assert len(rows) == 8
    assert rows == json.loads(invoke("calls", "--store", crib, "--all", "--json").stdout)["calls"]
    assert "--cursor" in invoke("calls", "--store", crib, "-n", "5").stderr


def test_csv_is_for_spreadsheets_and_holds_no_formula(sqlite_path: Path) -> None:
    """RFC 4180, and a name that begins like a formula is plain text."""

    @tool
    async def look(path: str) -> str:
        """Look."""
        return path

    async def call() -> None:
        async with await Session.open(store, "s") as session:
            executor = Executor(session, [look])
            for name in ("=cmd|'/c calc'!A1", '+1,"x"', "@sum", "-2", "\tx"):
                await executor.call("look", {"path": "a"}, caller=Caller(name))

    with SqliteStore(sqlite_path) as store:
        asyncio.run(call())

    done = invoke("calls", "--store", sqlite_path, "--oldest-first", "--csv")

    assert done.stdout_bytes.count(b"\r\n") == 6
    header, *rows = csv.reader(io.StringIO(done.stdout_bytes.decode(), newline=""))
    names = [dict(zip(header, row, strict=True))["principal"] for row in rows]
    assert names == ["'=cmd|'/c calc'!A1", '\'+1,"x"', "'@sum", "'-2", "'\tx"]


def test_usage_by_principal(crib: Path) -> None:
    """Newcomers C, cost: sums with tokens and dollars, the table of prices, and what has none."""
    done = invoke("audit", "usage", "--by", "principal", "--store", crib)

    assert done.stdout.splitlines()[1].split("\t") == [
        *("bob", "1", "0", "0.00s", "0.00s", "-", "8/4", "$0.3000+")
    ]
    assert "prices: tests 1" in done.stderr
    assert "1 requests to models have no known price" in done.stderr


def test_an_unknown_price_is_not_shown_as_nothing(crib: Path) -> None:
    """A model without a price has a question mark, not $0."""
    rows = invoke("audit", "usage", "--by", "model", "--store", crib).stdout.splitlines()

    assert [row.split("\t")[0::7] for row in rows] == [["free", "?"], ["m1", "$0.3000"]]


def test_usage_for_programs(crib: Path) -> None:
    """The same as JSON and as CSV."""
    sums = json.loads(invoke("audit", "usage", "--by", "tool", "--store", crib, "--json").stdout)
    rows = [*csv.DictReader(invoke("audit", "usage", "--store", crib, "--csv").stdout.splitlines())]

    assert {each["key"]: each["calls"] for each in sums} == {"double": 3, "pay": 5}
    assert [(row["key"], row["calls"], row["cost"]) for row in rows] == [("1970-01-12", "8", "0.3")]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--json", "--csv"], "one form"),
        (["--failed", "--status", "denied"], "give one of them"),
        (["--since", "yesterday"], "is no time"),
        (["--status", "faled"], "'faled' is none"),
        (["--decision", "maybe"], "decision"),
        (["--cursor", "x"], "unknown cursor"),
    ],
)
def test_wrong_options_are_named(crib: Path, options: list[str], fault: str) -> None:
    """Nothing is accepted and ignored."""
    done = invoke("calls", "--store", crib, *options)

    assert done.exit_code != 0
    assert fault in done.stderr


def test_a_call_that_no_ledger_has_is_found(crib: Path) -> None:
    """A row that somebody put into the index fails the check, and reindexing takes it out."""
    with closing(sqlite3.connect(crib)) as connection, connection:
        connection.execute(
            "INSERT INTO calls (session, seq, last_seq, kind, at, status, duration, waited, turn)"
            " SELECT session, 2, 2, 0, 1.0, 0, 0, 0, 0 FROM calls LIMIT 1"
        )

    done = invoke("audit", "verify", "--store", crib)
    assert (done.exit_code, "1 calls that no ledger has" in done.stderr) == (1, True)
    assert invoke("audit", "reindex", "--store", crib).exit_code == 0
    assert invoke("audit", "verify", "--store", crib).exit_code == 0


@pytest.mark.wire
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    "command", [("calls", "--kind", "any"), ("audit", "usage", "--by", "principal")]
)
async def test_tables_fit_the_terminal(
    command: tuple[str, ...], columns: int, sqlite_path: Path, tmp_path: Path
) -> None:
    """At 60, 80 and 120 columns each call is one line, with its header and its status."""
    with SqliteStore(sqlite_path, clock=FakeClock(), prices=TenCents()) as store:
        await play(store, FakeClock())

    with at_terminal(*command, "--store", sqlite_path, cwd=tmp_path, columns=columns) as started:
        shown = await started.rest()
        assert await started.exit_code() == 0

    assert past_the_edge(shown, columns) == []
    lines = screen_lines(shown)
    assert len([line for line in lines if "bob" in line or "alice" in line]) == (
        10 if command[0] == "calls" else 2
    )
    assert ("status" if command[0] == "calls" else "p95") in lines[0]
