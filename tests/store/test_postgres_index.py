"""The index of calls on PostgreSQL: what replicas leave in it together, and what queries read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import asyncpg
import pytest

from tests.store.facts import PERSON, FakeClock, chain, event, request, write
from tests.store.test_calls import (
    ALICE,
    CHANGES,
    TenCents,
    double,
    pay,
    play,
    responded,
    rows,
)
from tests.store.test_query_load import FILTERS
from toolcrib import Approve, Executor, Session
from toolcrib.approval.decision import Decided
from toolcrib.errors import LeaseLost, LedgerBroken
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, CallStarted
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.prices.table import UNKNOWN_PRICES
from toolcrib.store import PostgresStore, SqliteStore
from toolcrib.store.approval_query import ApprovalQuery, Viewer
from toolcrib.store.call_query import CallQuery
from toolcrib.store.cipher import new_key
from toolcrib.store.postgres import call_reader, inbox_query
from toolcrib.store.postgres.group_index import STARTS
from toolcrib.store.postgres.inbox_rows import approvals_statement, grants_statement
from toolcrib.store.postgres.index_store import sessions_statement
from toolcrib.store.postgres.reader import records_statement
from toolcrib.store.postgres.schema import migrations
from toolcrib.store.postgres.writer import SETTINGS
from toolcrib.store.record_marks import MARKED_KINDS
from toolcrib.store.session_query import SessionQuery
from toolcrib.store.store import ApprovalFiled, Commit
from toolcrib.store.verification import verify_session
from toolcrib.tools.identity import ToolRef

KEY = new_key()


@pytest.fixture
def pair(postgres_url: str, clock: FakeClock) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two replicas on one database."""
    with (
        PostgresStore(postgres_url, clock=clock, key=KEY, prices=TenCents()) as one,
        PostgresStore(postgres_url, clock=clock, key=KEY, prices=TenCents()) as two,
    ):
        yield one, two


def run_sql(url: str, *statements: str) -> list[Any]:
    """The rows of the last statement."""

    async def run() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return [tuple(row) for row in await connection.fetch(statements[-1])]
        finally:
            await connection.close()

    return asyncio.run(run())


async def test_another_replica_goes_on_with_a_row(
    pair: tuple[PostgresStore, PostgresStore], clock: FakeClock
) -> None:
    """A call that was asked for here and ends there is one row, counted once."""
    one, two = pair
    async with await Session.open(one, "s", owner="alice", clock=clock) as session:
        waiting = await Executor(session, [pay]).call("pay", {"amount": 1}, caller=ALICE)
        await session.approvals.decide(waiting.call_id, Approve(), by="carol")
    async with await Session.open(two, "s", clock=clock) as session:
        await Executor(session, [pay]).call("pay", call_id=waiting.call_id)

    for store in pair:
        (row,) = rows(store)
        assert (row.status, row.approver, row.owner) == ("completed", "carol", "alice")
        summary = store.summaries(["s"])["s"]
        assert (summary.calls, summary.failures, summary.title) == (1, 0, "pay")
    verify_session(one, "s")


async def test_what_was_spent_within_a_call_survives_the_writer(
    pair: tuple[PostgresStore, PostgresStore], clock: FakeClock
) -> None:
    """Requests that one replica made are in the cost of the call that another one ends, and belong
    to the prompt that the first one started.
    """
    one, two = pair
    asked, ref = request("a1", "s"), ToolRef("pay", "python", "1", "d" * 64, "local")
    about: dict[str, Any] = {"session_id": "s", "call_id": "c1"}
    async with await Session.open(one, "s", clock=clock) as session:
        await session.record(ApprovalRequested(**about, at=1.0, request=replace(asked, tool=ref)))
        await session.record(
            PromptStarted(
                session_id="s",
                at=2.0,
                turn=7,
                prompt_name="p",
                text="",
                digest="d",
                adapter="openai",
                model="m1",
                principal="alice",
                parent_call_id="c1",
            )
        )
        await session.record(responded(session, 7, "m1", 3, clock))
    async with await Session.open(two, "s", clock=clock) as session:
        await session.record(responded(session, 7, "m1", 2, clock))
        decided = Decided("a1", asked.digest, Approve(), PERSON, 2.0)
        await session.record(ApprovalDecided(**about, at=3.0, decided=decided))

    requests = rows(two, kind="model")
    assert [(row.principal, row.parent_call_id) for row in requests] == [("alice", "c1")] * 2
    verify_session(two, "s")
    assert two.summaries(["s"])["s"].cost == 0.5


async def test_a_call_in_doubt_is_found_by_the_start_that_another_replica_wrote(
    pair: tuple[PostgresStore, PostgresStore], clock: FakeClock
) -> None:
    """Who takes over reads the start from the ledger."""
    one, two = pair
    ref = ToolRef("pay", "python", "1", "d" * 64, "local")
    start = CallStarted(
        session_id="s", at=5.0, call_id="c1", tool=ref, arguments_digest="x", principal="alice"
    )
    async with await Session.open(one, "s", clock=clock) as session:
        await session.record(start)
    async with await Session.open(two, "s", clock=clock) as session:
        await session.record(replace(event("s", "c1"), at=clock.now))

    (row,) = rows(one)
    assert (row.status, row.principal, row.at, row.tool) == ("in_doubt", "alice", 5.0, "pay")


def test_a_lost_lease_leaves_nothing_in_the_index(
    pair: tuple[PostgresStore, PostgresStore], clock: FakeClock
) -> None:
    """Rows and counts are written with the records, or not at all."""
    one, two = pair
    lease = one.acquire("s")
    write(one, lease)
    clock.now += 60
    two.join(None)
    write(two, two.acquire("s"))
    before = rows(two), two.summaries(["s"])

    with pytest.raises(LeaseLost):
        one.commit(lease, Commit(chain(1, one.head("s")), ()))

    assert (rows(two), two.summaries(["s"])) == before
    assert two.stray_calls() == 0


async def test_rows_are_right_after_lost_connections(
    pair: tuple[PostgresStore, PostgresStore], postgres_url: str, clock: FakeClock
) -> None:
    """A group that is written again after its connection broke is counted once."""
    one, _ = pair
    broken = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    mine = f"{broken} AND datname = current_database()"
    async with await Session.open(one, "s", clock=clock) as session:
        executor = Executor(session, [double, pay])
        waiting = await executor.call("pay", {"amount": 1})
        for number in range(3):
            await asyncio.to_thread(run_sql, postgres_url, mine)
            await executor.call("double", {"number": number})
        await session.approvals.decide(waiting.call_id, Approve(), by="carol")
        await asyncio.to_thread(run_sql, postgres_url, mine)
        await executor.call("pay", call_id=waiting.call_id)

    assert one.summaries(["s"])["s"].calls == 4
    verify_session(one, "s")


@pytest.mark.parametrize("change", CHANGES)
async def test_an_index_that_was_changed_is_found_and_made_anew(
    change: str, shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """The ledger is the truth: verification compares the index with it, reindexing restores it."""
    await play(shared, clock)
    before = rows(shared, kind=None), shared.summaries(["shop", "lab"])
    await asyncio.to_thread(run_sql, postgres_url, change, "SELECT 1")

    with pytest.raises(LedgerBroken, match="audit reindex"):
        verify_session(shared, "shop")
    shared.reindex()

    verify_session(shared, "shop")
    assert (rows(shared, kind=None), shared.summaries(["shop", "lab"])) == before


async def test_reindexing_prices_what_had_no_price(postgres_url: str, clock: FakeClock) -> None:
    """What was written without a table of prices gets its cost later."""
    with PostgresStore(postgres_url, clock=clock, key=KEY, prices=UNKNOWN_PRICES) as store:
        await play(store, clock)
        assert [each.cost for each in store.call_sums(CallQuery(), "day")] == [None]
    with PostgresStore(postgres_url, clock=clock, key=KEY, prices=TenCents()) as store:
        assert store.reindex() > 10
        assert [each.cost for each in store.call_sums(CallQuery(), "day")] == [0.3]
        assert store.summaries(["lab"])["lab"].cost == 0.3


async def test_reindexing_finds_requests_that_were_filed_without_an_index(
    shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """An older replica does not fill the columns that the inbox is searched by."""
    await play(shared, clock)
    change = "UPDATE approvals SET tool = NULL, for_anyone = false, verdict = NULL"
    await asyncio.to_thread(run_sql, postgres_url, change, "SELECT 1")
    anyone = ApprovalQuery(viewer=Viewer("eve", is_approver=True))
    assert shared.inbox(anyone).items == ()

    shared.reindex()

    assert shared.inbox(anyone).total == 5
    assert shared.inbox(ApprovalQuery(tool="pay", is_approved=True)).total == 2


async def test_a_deleted_session_leaves_no_row(
    shared: PostgresStore, postgres_url: str, clock: FakeClock
) -> None:
    """Neither in the index nor of its prompts; a stray row is one that no ledger has."""
    await play(shared, clock)
    shared.delete_session("lab")
    shared.delete_session("shop")
    left = "SELECT (SELECT count(*) FROM calls), (SELECT count(*) FROM prompts)"
    assert await asyncio.to_thread(run_sql, postgres_url, left) == [(0, 0)]
    assert shared.stray_calls() == 0
    stray = (
        "INSERT INTO calls (session, seq, last_seq, kind, at, status, duration, waited, turn)"
        " VALUES (1, 1, 1, 0, 1.0, 0, 0, 0, 0)"
    )
    await asyncio.to_thread(run_sql, postgres_url, stray, "SELECT 1")
    assert shared.stray_calls() == 1


def test_every_replica_sees_that_the_inbox_changed(
    pair: tuple[PostgresStore, PostgresStore],
) -> None:
    """A request that one files, and a decision of the other."""
    one, two = pair
    seen = [two.inbox_version()]
    write(one, one.acquire("s"), 1, [ApprovalFiled(request())])
    seen.append(two.inbox_version())
    assert two.decide(Decided("a1", "d1", Approve(), PERSON, 2.0))
    seen += [one.inbox_version(), two.inbox_version()]

    assert seen == sorted(seen)
    assert len(set(seen)) == 3


def test_the_marked_kinds_are_those_of_the_index() -> None:
    """A kind that is looked for and not in the index would be read through the whole ledger."""
    (step,) = (step for step in migrations() if step.number == 2)
    _, _, condition = step.sql.partition("CREATE INDEX marked_records")
    assert set(re.findall(r"'([a-z._]+)'", condition)) == MARKED_KINDS


SESSION_FILTERS: dict[str, Any] = {
    "owner": "p1",
    "since": 1.0,
    "until": 9e9,
    "text": "word",
    "tool": "t1*",
    "has_failures": True,
    "is_waiting": True,
}
APPROVAL_FILTERS: dict[str, Any] = {
    "viewer": Viewer("p1", is_approver=True, groups=frozenset({"g"})),
    "session_id": "s1",
    "state": "pending",
    "tool": "t1",
    "principal": "p1",
    "is_approved": True,
    "order": "deadline",
}
_FILL = (
    """
    INSERT INTO sessions (session_id, born, created_at, owner, settings, head_hash, fence)
    SELECT 's' || n, 0, n, 'p' || n % 50, '{}', '', n FROM generate_series(1, 200) n
    """,
    """
    INSERT INTO calls (session, seq, last_seq, kind, at, status, call_id, owner, principal, tool,
        source, duration, waited, turn)
    SELECT 1 + n % 200, n, n, 0, 1000000 + n, n % 3, 'c' || n, 'p' || n % 50, 'p' || n % 50,
        't' || n % 200, 's1', 0, 0, 0 FROM generate_series(1, 5000) n
    """,
    """
    INSERT INTO approvals (approval_id, session, digest, state, request, tool, principal)
    SELECT 'a' || n, 1 + n % 200, '', 'pending', '{}', 't' || n % 200, 'p' || n % 50
    FROM generate_series(1, 500) n
    """,
)


def choices(filters: dict[str, Any]) -> list[dict[str, Any]]:
    """Every filter alone and with every other."""
    return [
        {name: filters[name] for name in names}
        for size in (0, 1, 2)
        for names in combinations(filters, size)
    ]


@pytest.mark.parametrize("is_analysed", [False, True], ids=["new", "analysed"])
async def test_no_page_reads_a_whole_table(postgres_url: str, is_analysed: bool) -> None:
    """Every page of calls, sessions, requests and marked records comes from indexes, whether or
    not the database knows how many rows there are.
    """
    PostgresStore(postgres_url).close()
    connection = await asyncpg.connect(postgres_url)
    try:
        for statement in (*_FILL, *(["ANALYZE"] if is_analysed else [])):
            await connection.execute(statement)
        async with connection.transaction():
            await connection.execute("SET LOCAL enable_seqscan = off")
            for filters in choices(FILTERS):
                for oldest_first in (False, True):
                    query = replace(CallQuery(**filters), oldest_first=oldest_first)
                    page = await call_reader.page_statement(connection, query, None, 101)
                    await check_plan(connection, page[0], page[1].values)
            for filters in choices(SESSION_FILTERS):
                sessions = SessionQuery(**filters)
                page = sessions_statement(sessions, ["t1"], ((0.0, 0), None), 101)
                await check_plan(connection, page[0], page[1].values)
            for filters in choices(APPROVAL_FILTERS):
                page = inbox_query.page_statement(ApprovalQuery(**filters), None, 101)
                await check_plan(connection, page[0], page[1].values)
    finally:
        await connection.close()


async def check_plan(
    connection: asyncpg.Connection[Any], statement: str, values: Sequence[object]
) -> None:
    plan = await connection.fetch(f"EXPLAIN {statement}", *values)
    steps = [row[0] for row in plan]
    # There are never many replicas, and no index leads to a row of theirs faster.
    scans = [step for step in steps if "Seq Scan" in step and "replicas" not in step]
    assert not scans, (statement, steps)


async def test_marked_records_are_read_by_their_index(
    shared: PostgresStore, postgres_url: str
) -> None:
    """Of a long ledger nothing else is read: the plan names the index for each kind."""
    write(shared, shared.acquire("s"), 3)
    statement = records_statement(["turn.started", "prompt.started"], newest_first=True)
    connection = await asyncpg.connect(postgres_url)
    try:
        born = await connection.fetchval("SELECT born FROM sessions")
        await connection.execute(
            "INSERT INTO records SELECT born, session, n, at, 'call.started', NULL, payload_digest,"
            " previous, hash FROM records, generate_series(10, 20000) n WHERE seq = 1"
        )
        plan = await connection.fetch(f"EXPLAIN {statement}", born, 1, 0, 10**9, 16)
    finally:
        await connection.close()
    scans = [row[0] for row in plan if "Scan" in row[0] and "records" in row[0]]
    assert len(scans) == 2
    assert all("Index Scan" in scan and "kind_seq" in scan for scan in scans), plan


async def test_the_start_of_a_call_is_looked_for_from_the_end_of_its_ledger(
    shared: PostgresStore, postgres_url: str
) -> None:
    """Who takes a long session over and finds a call in doubt does not read all of its records."""
    write(shared, shared.acquire("s"), 3)
    connection = await asyncpg.connect(postgres_url)
    try:
        for table, fields in (
            ("records", "at, 'call.started', 'c' || n, payload_digest, previous, hash"),
            ("payloads", "payload"),
        ):
            await connection.execute(
                f"INSERT INTO {table} SELECT born, session, n, {fields} FROM {table},"
                " generate_series(10, 20000) n WHERE seq = 1"
            )
        await connection.execute("ANALYZE")
        await connection.execute(SETTINGS)
        plan = await explain(connection, STARTS, ["text[]", "text[]"], "ARRAY['s'], ARRAY['c1900']")
        assert any("Index Scan Backward" in step and "records_" in step for step in plan), plan
    finally:
        await connection.close()


@pytest.mark.parametrize("is_analysed", [False, True], ids=["new", "analysed"])
async def test_one_filter_is_no_reason_to_read_all_grants_or_requests(
    postgres_url: str, is_analysed: bool
) -> None:
    """Every call asks for the grants of its tool: also the plan that a prepared statement keeps is
    one by the index of what is asked for.
    """
    PostgresStore(postgres_url).close()
    connection = await asyncpg.connect(postgres_url)
    grants, requests = grants_statement("t1", 0, 101), approvals_statement("s1", None, None, 0, 101)
    try:
        for statement in (*_FILL, _FILL_GRANTS, *(["ANALYZE"] if is_analysed else [])):
            await connection.execute(statement)
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        types = {"t1": "text", "s1": "text", 0: "bigint", 101: "bigint"}
        for (statement, put), index in (
            (grants, "grants_by_tool"),
            (requests, "approvals_by_session"),
        ):
            values = ", ".join(repr(value) for value in put.values)
            names = [types[value] for value in put.values]  # pyright: ignore[reportArgumentType]
            plan = await explain(connection, statement, names, values)
            assert any(index in step for step in plan), plan
    finally:
        await connection.close()


_FILL_GRANTS = """
INSERT INTO grants (grant_id, tool_id, fact)
SELECT 'g' || n, 't' || n % 100, '{}' FROM generate_series(1, 5000) n
"""


async def explain(
    connection: asyncpg.Connection[Any], statement: str, types: Sequence[str], values: str
) -> list[str]:
    """The plan of a prepared statement for these values, which stand in SQL."""
    await connection.execute("DEALLOCATE ALL")
    await connection.execute(f"PREPARE asked ({', '.join(types)}) AS {statement}")
    return [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE asked ({values})")]


def test_names_with_characters_that_a_database_refuses_are_kept(
    shared: PostgresStore, sqlite: SqliteStore
) -> None:
    """The character 0 in the name of a tool stops no commit, and the index agrees with the ledger
    in every store.
    """
    about: dict[str, Any] = {"session_id": "s", "call_id": "c1"}
    for store in (shared, sqlite):
        tool = ToolRef("p\0ay", "python", "1", "d" * 64, "local")
        session = Session("s", store=store)
        asked = replace(request("a1", "s"), tool=tool)

        async def file(session: Session = session, asked: Any = asked) -> None:
            await session.record(ApprovalRequested(**about, at=1.0, request=asked))

        asyncio.run(file())
        assert [row.tool for row in rows(store)] == ["pay"]
        verify_session(store, "s")
