"""The record over all sessions: who may see which calls, by which filters, and the sums."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import host_tool, serving
from tests.store.facts import write
from toolcrib.errors import Refused
from toolcrib.runtime.audit_operations import read_time
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import Retention, SqliteStore

ALICE = Principal("alice", frozenset({"caller"}))
BOB = Principal("bob", frozenset({"caller"}))
AUDITOR = Principal("ann", frozenset({"auditor"}))


async def play(runtime: Runtime) -> None:
    """Alice calls twice, the second time in vain; bob once."""
    for who, calls in ((ALICE, [{"a": 1, "b": 2}, {"a": "x"}]), (BOB, [{"a": 1, "b": 2}])):
        operations = runtime.as_principal(who)
        session = await operations.create_session(f"{who.name}:1")
        for arguments in calls:
            await operations.call_tool(session.session_id, "add", arguments)


async def test_who_called_what_last_week() -> None:
    """Newcomers C: one query over all sessions, by time, user, tool and end."""
    async with serving(host_tool("add")) as runtime:
        await play(runtime)
        auditor = runtime.as_principal(AUDITOR)

        failed = await auditor.list_calls(
            since="7d", principal="alice", tool="a*", status="failed,denied"
        )

        assert [(row.session_id, row.tool, row.failure) for row in failed.calls] == [
            ("alice:1", "add", "invalid_arguments")
        ]
        everything = await auditor.list_calls(since="7d")
        assert [row.principal for row in everything.calls] == ["bob", "alice", "alice"]


async def test_callers_see_the_calls_of_their_own_sessions() -> None:
    """A foreign session's calls do not exist for a caller, however they are asked for."""
    async with serving(host_tool("add")) as runtime:
        await play(runtime)
        bob = runtime.as_principal(BOB)

        filters: list[dict[str, Any]] = [
            {"owner": "alice"},
            {"session_id": "alice:1"},
            {"principal": "alice"},
        ]
        for foreign in filters:
            assert (await bob.list_calls(**foreign)).calls == []
        assert [row.session_id for row in (await bob.list_calls()).calls] == ["bob:1"]
        assert [each.key for each in (await bob.sum_calls(by="principal")).sums] == ["bob"]
        assert (await bob.sum_calls(owner="alice")).sums == []


async def test_calls_come_in_pages() -> None:
    """The cursor of a page asks for the next one; an unknown one is refused."""
    async with serving(host_tool("add")) as runtime:
        await play(runtime)
        auditor = runtime.as_principal(AUDITOR)

        first = await auditor.list_calls(limit=2)
        second = await auditor.list_calls(limit=2, cursor=first.cursor)

        assert [len(first.calls), len(second.calls)] == [2, 1]
        assert second.cursor is None
        with pytest.raises(Refused, match="unknown cursor"):
            await auditor.list_calls(cursor="x")


async def test_sums_say_how_often_and_how_long() -> None:
    """Newcomers C: usage sums by tool, day and principal."""
    async with serving(host_tool("add")) as runtime:
        await play(runtime)
        auditor = runtime.as_principal(AUDITOR)

        (add,) = (await auditor.sum_calls(by="tool")).sums
        assert (add.key, add.calls, add.failures) == ("add", 3, 1)
        (day,) = (await auditor.sum_calls(by="day", since="1d")).sums
        assert day.key == datetime.now(UTC).date().isoformat()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("7d", 1_000_000.0 - 7 * 86_400),
        ("90m", 1_000_000.0 - 5_400),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00+01:00", 0.0),
        (12.5, 12.5),
        ("12.5", 12.5),
    ],
)
def test_a_time_is_written_in_several_ways(written: float | str, seconds: float) -> None:
    """How long ago, ISO 8601 (UTC without an offset), or seconds since 1970."""
    assert read_time(written, "since", lambda: 1_000_000.0) == seconds


@pytest.mark.parametrize("written", ["yesterday", "nan", "7 weeks", ""])
def test_what_is_no_time_is_refused(written: str) -> None:
    """The refusal says which parameter, and what to write."""
    with pytest.raises(Refused, match=r"since: .* is no time; write how long ago"):
        read_time(written, "since")


async def test_an_unknown_status_is_refused() -> None:
    """A filter that nothing can pass is a fault, not an empty list."""
    async with serving(host_tool("add")) as runtime:
        with pytest.raises(Refused, match="'faled' is none; write completed"):
            await runtime.list_calls(status="faled")


async def test_a_runtime_keeps_its_retention(sqlite_path: Path) -> None:
    """While it runs, and not after: what is old when it starts is pruned before it has closed."""
    with SqliteStore(sqlite_path, clock=lambda: 1.0) as store:
        lease = store.acquire("old")
        write(store, lease, 2)
        store.release(lease)
        retention = Retention(older_than=60.0)
        async with serving(host_tool("add"), store=store, retention=retention) as runtime:
            assert (await runtime.list_sessions()).sessions[0].session_id == "old"
            async with asyncio.timeout(PATIENCE):
                while (await runtime.get_session("old")).last_seq == 2:
                    # Each look takes a turn of the store's thread.
                    pass
        assert [record.payload is None for record in store.records("old")] == [True, True, False]


async def test_sessions_have_filters_and_pages() -> None:
    """Newcomers C, GET /v1/sessions has no parameters: by time, owner and state, in pages."""
    async with serving(host_tool("add")) as runtime:
        await play(runtime)
        await runtime.as_principal(BOB).close_session("bob:1")
        auditor = runtime.as_principal(AUDITOR)

        async def listed(**filters: Any) -> list[str]:
            return [each.session_id for each in (await auditor.list_sessions(**filters)).sessions]

        assert await listed(owner="alice") == ["alice:1"]
        assert await listed(state="closed") == ["bob:1"]
        assert await listed(state="open", limit=1) == ["alice:1"]
        assert await listed(newest_first=True) == ["bob:1", "alice:1"]
        assert await listed(until="1h") == []
        assert await listed(since="1h", state="open") == ["alice:1"]
        first = await auditor.list_sessions(limit=1)
        assert await listed(limit=1, cursor=first.cursor) == ["bob:1"]
        with pytest.raises(Refused, match="is no time"):
            await auditor.list_sessions(since="yesterday")
        own = await runtime.as_principal(BOB).list_sessions(owner="alice")
        assert own.sessions == []
