"""The index of calls: what every store answers about the calls of all sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.store.facts import PERSON, FakeClock, event, request
from toolcrib import Answer, Approve, Deny, Executor, Session, tool
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import Decided
from toolcrib.errors import LedgerBroken
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested
from toolcrib.ledger.prompt_events import ModelResponded, PromptResumed, PromptStarted
from toolcrib.prices.cost import CostPart
from toolcrib.prices.price_list import HostedUse
from toolcrib.prices.table import UNKNOWN_PRICES
from toolcrib.store import MemoryStore, PostgresStore, SqliteStore, Store
from toolcrib.store.call_query import CallQuery, CallRow, RowStatus, SumKey
from toolcrib.store.cipher import new_key
from toolcrib.store.kept_store import KeptStore
from toolcrib.store.session_query import SessionQuery
from toolcrib.store.store import every
from toolcrib.store.verification import verify_session

ALICE = Caller("alice", "http")
BOB = Caller("bob", "mcp")


@tool(is_idempotent=True)
async def double(number: int) -> int:
    """Double a number."""
    if number < 0:
        raise ValueError("no negative numbers")
    return 2 * number


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"


class TenCents:
    """Prices for tests: a token in costs ten cents, a token out nothing; `free` is unknown."""

    name = "tests 1"

    def request(
        self, provider: str, model: str, usage: Mapping[str, int], at: float
    ) -> CostPart | None:
        if model == "free":
            return None
        tokens = usage["input_tokens"]
        return CostPart("tokens", model, tokens, tokens * 100_000_000, self.name)

    def call(self, use: HostedUse, at: float) -> CostPart | None:
        return None


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def priced(request: pytest.FixtureRequest, sqlite_path: Path, clock: FakeClock) -> Iterator[Store]:
    """Every store that ships, with prices of the test."""
    store: Store
    match request.param:
        case "memory":
            store = MemoryStore(clock=clock, prices=TenCents())
        case "sqlite":
            store = SqliteStore(sqlite_path, clock=clock, prices=TenCents())
        case _:
            url = request.getfixturevalue("postgres_url")
            store = PostgresStore(url, clock=clock, key=new_key(), prices=TenCents())
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def durable(
    request: pytest.FixtureRequest, sqlite_path: Path, clock: FakeClock
) -> Iterator[KeptStore]:
    """Every store that keeps an index."""
    if request.param == "sqlite":
        store: KeptStore = SqliteStore(sqlite_path, clock=clock)
    else:
        url = request.getfixturevalue("postgres_url")
        store = PostgresStore(url, clock=clock, key=new_key())
    yield store
    store.close()


async def play(store: Store, clock: FakeClock) -> None:
    """Calls of two people in two sessions, one of each end, ten seconds apart."""
    async with await Session.open(store, "shop", owner="alice", clock=clock) as session:
        executor = Executor(session, [double, pay])
        for number in (1, -1):
            await executor.call("double", {"number": number}, caller=ALICE)
            clock.now += 10
        for decision in (Approve(), Approve({"amount": 9}), Deny("no"), Answer("noted")):
            waiting = await executor.call("pay", {"amount": 1}, caller=ALICE)
            clock.now += 5
            await session.approvals.decide(waiting.call_id, decision, by="carol")
            await executor.call("pay", call_id=waiting.call_id)
            clock.now += 5
        await executor.call("pay", {"amount": 7}, caller=ALICE)
        clock.now += 10
    async with await Session.open(store, "lab", owner="bob", clock=clock) as session:
        await Executor(session, [double]).call("double", {"number": 3}, caller=BOB)
        await prompt(session, "m1", 3, clock)
        await prompt(session, "free", 5, clock)


async def prompt(session: Session, model: str, tokens: int, clock: FakeClock) -> None:
    about: dict[str, Any] = {"session_id": session.session_id, "at": clock.now}
    await session.record(
        PromptStarted(
            **about,
            turn=tokens,
            prompt_name="chat",
            text="hi",
            digest="d",
            adapter="openai",
            model=model,
            principal="bob",
            transport="mcp",
        )
    )
    await session.record(responded(session, tokens, model, tokens, clock))


def responded(
    session: Session, turn: int, model: str, tokens: int, clock: FakeClock
) -> ModelResponded:
    return ModelResponded(
        session_id=session.session_id,
        at=clock.now,
        turn=turn,
        step=1,
        status="completed",
        response_id=None,
        request_id=None,
        model=model,
        items=[],
        usage={"input_tokens": tokens, "output_tokens": 2, "cached_tokens": 0},
    )


def rows(store: Store, **filters: Any) -> list[CallRow]:
    options: dict[str, Any] = {"oldest_first": True, **filters}
    query = CallQuery(**options)
    return list(every(lambda cursor: store.calls(query, cursor=cursor, limit=3)))


async def test_each_end_of_a_call_is_one_row(store: Store, clock: FakeClock) -> None:
    """Status, decision and decider of every call, over all sessions, oldest first."""
    await play(store, clock)

    assert [
        (row.session_id, row.tool, row.status, row.decision, row.decided_by, row.approver)
        for row in rows(store)
    ] == [
        ("shop", "double", "completed", None, None, None),
        ("shop", "double", "failed", None, None, None),
        ("shop", "pay", "completed", "allowed", "person", "carol"),
        ("shop", "pay", "completed", "edited", "person", "carol"),
        ("shop", "pay", "denied", "denied", "person", "carol"),
        ("shop", "pay", "completed", "answered", "person", "carol"),
        ("shop", "pay", "waiting", None, None, None),
        ("lab", "double", "completed", None, None, None),
    ]


FILTERS: list[tuple[dict[str, Any], int]] = [
    ({"principal": "alice"}, 7),
    ({"principal": "nobody"}, 0),
    ({"owner": "bob"}, 1),
    ({"tool": "pay"}, 5),
    ({"tool": "d*"}, 3),
    ({"tool": "[dp]*"}, 8),
    ({"source": "python"}, 8),
    ({"source": "mcp:x"}, 0),
    ({"statuses": ("failed",)}, 1),
    ({"statuses": ("failed", "denied")}, 2),
    ({"statuses": ("completed", "waiting")}, 6),
    ({"failure": "tool_error"}, 1),
    ({"failure": "denied"}, 1),
    ({"decision": "answered"}, 1),
    ({"decided_by": "person"}, 4),
    ({"approver": "carol"}, 4),
    ({"session_id": "lab"}, 1),
    ({"since": 1_000_020.0}, 6),
    ({"until": 1_000_020.0}, 2),
    ({"since": 1_000_010.0, "until": 1_000_020.0, "principal": "alice"}, 1),
    ({"principal": "alice", "tool": "double", "statuses": ("failed",)}, 1),
    ({"kind": "model"}, 2),
    ({"kind": None}, 10),
    ({"kind": "model", "model": "m1"}, 1),
    ({"kind": None, "min_cost": 0.3}, 1),
    ({"kind": None, "min_cost": 0.31}, 0),
]


async def test_each_filter_lets_only_its_calls_pass(priced: Store, clock: FakeClock) -> None:
    """Every filter, alone and with others, in both orders, on pages of three."""
    await play(priced, clock)

    for filters, count in FILTERS:
        oldest = rows(priced, **filters)
        newest = rows(priced, **filters, oldest_first=False)
        assert len(oldest) == count, filters
        assert newest == oldest[::-1], filters
        assert all(CallQuery(**filters).matches(row) for row in oldest), filters


async def test_a_page_is_stable_while_calls_come(store: Store, clock: FakeClock) -> None:
    """A call that is made between two pages makes no other appear twice or not at all."""
    await play(store, clock)
    query = CallQuery()
    before = rows(store, oldest_first=False)

    first = store.calls(query, limit=4)
    clock.now += 10
    async with await Session.open(store, "late", clock=clock) as session:
        await Executor(session, [double]).call("double", {"number": 1})
    second = store.calls(query, cursor=first.cursor, limit=4)

    assert [*first.items, *second.items] == before
    assert second.cursor is None


async def test_a_call_that_runs_is_listed_as_running(store: Store, clock: FakeClock) -> None:
    """It has no end yet, and an auditor sees it all the same; later it is one completed call."""
    seen: list[CallRow] = []

    @tool
    async def look(path: str) -> str:
        """Look."""
        seen.extend(rows(store))
        return path

    async with await Session.open(store, "s", owner="alice", clock=clock) as session:
        await Executor(session, [look]).call("look", {"path": "a"}, caller=ALICE)

    assert [(row.tool, row.status, row.principal, row.owner) for row in seen] == [
        ("look", "running", "alice", "alice")
    ]
    assert [(row.tool, row.status) for row in rows(store)] == [("look", "completed")]


async def test_a_call_in_doubt_is_listed_with_its_asker(store: Store, clock: FakeClock) -> None:
    """What a dead process left says who asked for it, and when it started."""
    from toolcrib.ledger.events import CallInDoubt, CallStarted
    from toolcrib.tools.identity import ToolRef

    ref = ToolRef("pay", "python", "1", "d", "local")
    async with await Session.open(store, "s", clock=clock) as session:
        about: dict[str, Any] = {"session_id": "s", "call_id": "c1", "tool": ref}
        await session.record(CallStarted(**about, at=5.0, arguments_digest="x", principal="alice"))
        await session.record(CallInDoubt(**about, at=99.0))

    (row,) = rows(store)
    assert (row.status, row.principal, row.at, row.tool) == ("in_doubt", "alice", 5.0, "pay")


async def test_stores_answer_alike(durable: KeptStore, clock: FakeClock) -> None:
    """The memory store and those that keep an index have the same rows for the same calls."""
    started = clock.now
    await play(durable, clock)
    clock.now = started
    memory = MemoryStore(clock=clock)
    await play(memory, clock)

    def facts(store: Store) -> list[dict[str, Any]]:
        # The number of a call has that of its lease, which every store counts its own way.
        return [asdict(replace(row, call_id=None)) for row in rows(store, kind=None)]

    assert facts(durable) == facts(memory)
    for key in get_args(SumKey):
        assert durable.call_sums(CallQuery(), key) == memory.call_sums(CallQuery(), key)


async def test_sums_count_calls_failures_tokens_and_cost(priced: Store, clock: FakeClock) -> None:
    """An unknown price stays unknown: it is counted beside the cost, never as nothing."""
    await play(priced, clock)

    (day,) = priced.call_sums(CallQuery(), "day")
    assert (day.key, day.calls, day.failures, day.requests) == ("1970-01-12", 8, 2, 2)
    assert (day.input_tokens, day.output_tokens, day.cost, day.unpriced) == (8, 4, 0.3, 1)
    assert day.waited_seconds == 20.0
    assert day.prices == ("tests 1",)
    by_model = {each.key: each for each in priced.call_sums(CallQuery(), "model")}
    assert (by_model["m1"].cost, by_model["free"].cost) == (0.3, None)
    by_tool = {each.key: each for each in priced.call_sums(CallQuery(), "tool")}
    assert (by_tool["pay"].calls, by_tool["pay"].failures) == (5, 1)
    newest = max(row.at for row in rows(priced) if row.tool == "pay")
    by_id = {each.key: each for each in priced.call_sums(CallQuery(), "tool_id")}
    assert (by_id["python/pay"].calls, by_id["python/pay"].last_at) == (5, newest)
    minutes = priced.call_sums(CallQuery(), "minute")
    assert sum(each.calls for each in minutes) == 8
    assert all(str(each.key).startswith("1970-01-12T13:") for each in minutes)
    (hour,) = priced.call_sums(CallQuery(), "hour")
    assert (hour.key, hour.calls) == ("1970-01-12T13:00Z", 8)
    statuses = {each.key: each.calls for each in priced.call_sums(CallQuery(), "status")}
    assert (statuses["failed"], sum(statuses.values())) == (1, 8)
    (failed,) = priced.call_sums(CallQuery(statuses=("failed",)), "day")
    assert (failed.calls, failed.failures) == (1, 1)
    (bob,) = priced.call_sums(CallQuery(principal="bob"), "principal")
    assert (bob.key, bob.calls, bob.requests, bob.cost) == ("bob", 1, 2, 0.3)


async def test_what_a_provider_counts_below_zero_has_no_price(
    priced: Store, clock: FakeClock
) -> None:
    """The count stays as it was sent, the cost is unknown, and the session verifies."""
    session = Session("s", store=priced, clock=clock)
    await prompt(session, "big", -1, clock)

    (row,) = rows(priced, kind="model")
    assert (row.input_tokens, row.cost, row.prices) == (-1, None, None)
    assert session.verify() is not None


async def test_what_a_provider_counts_beyond_reason_is_bounded(
    priced: Store, clock: FakeClock
) -> None:
    """A number that no database holds breaks neither the session nor the sums of others."""
    session = Session("s", store=priced, clock=clock)
    for turn in range(3):
        await session.record(responded(session, turn, "big", 10**30, clock))

    row = rows(priced, kind="model")[0]
    (usage,) = priced.call_sums(CallQuery(kind="model"), "model")
    assert (row.input_tokens, row.cost) == (10**9, None)
    assert usage.input_tokens == 3 * 10**9
    assert session.verify() is not None


async def test_percentiles_are_of_calls_that_ended(priced: Store, clock: FakeClock) -> None:
    """Of 20 calls that took 1 to 20 seconds, half took at most 10 and 95 of 100 at most 19."""

    @tool
    async def sleep(seconds: int) -> int:
        """Sleep."""
        clock.now += seconds
        return seconds

    async with await Session.open(priced, "s", clock=clock) as session:
        executor = Executor(session, [sleep])
        for seconds in range(20, 0, -1):
            await executor.call("sleep", {"seconds": seconds})

    (sleeps,) = priced.call_sums(CallQuery(), "tool")
    assert (sleeps.p50_seconds, sleeps.p95_seconds) == (10.0, 19.0)


async def test_a_call_costs_what_the_prompts_within_it_cost(
    priced: Store, clock: FakeClock
) -> None:
    """A tool that asks a model has the tokens and the cost of its requests."""
    async with await Session.open(priced, "s", clock=clock) as session:

        @tool
        async def ask(question: str) -> str:
            """Ask a model."""
            for model in ("m1", "free"):
                await session.record(
                    replace(
                        _started(session, clock, model), parent_call_id="call_1_1", turn=len(model)
                    )
                )
                await session.record(responded(session, len(model), model, 4, clock))
            return question

        outcome = await Executor(session, [ask]).call("ask", {"question": "q"})
        assert outcome.call_id == "call_1_1"

    (row,) = rows(priced)
    assert (row.input_tokens, row.cost, row.prices) == (8, 0.4, "tests 1")
    (by_tool,) = priced.call_sums(CallQuery(), "tool")
    assert by_tool.cost == 0.4
    assert sum(each.cost or 0 for each in priced.call_sums(CallQuery(), "day")) == 0.4


async def test_what_principals_have_left_is_counted(store: Store, clock: FakeClock) -> None:
    """Sessions by owner, calls by who asked, and the later of their last times, in every store."""
    async with await Session.open(store, "a", owner="alice", clock=clock) as session:
        executor = Executor(session, [double])
        for number in (1, 2):
            clock.now += 10
            await executor.call("double", {"number": number}, caller=BOB)
    clock.now += 5
    async with await Session.open(store, "b", owner="alice", clock=clock):
        pass

    assert [(use.name, use.sessions, use.calls) for use in store.principals()] == [
        ("alice", 2, 0),
        ("bob", 0, 2),
    ]
    assert [use.last_at for use in store.principals()] == [clock.now, clock.now - 5]


def _started(session: Session, clock: FakeClock, model: str) -> PromptStarted:
    return PromptStarted(
        session_id=session.session_id,
        at=clock.now,
        turn=1,
        prompt_name="p",
        text="",
        digest="d",
        adapter="openai",
        model=model,
        principal="alice",
    )


async def test_who_resumes_a_prompt_pays_from_then_on(priced: Store, clock: FakeClock) -> None:
    """Requests to a model are those of whoever asked last."""
    async with await Session.open(priced, "s", clock=clock) as session:
        await session.record(_started(session, clock, "m1"))
        await session.record(responded(session, 1, "m1", 1, clock))
        await session.record(
            PromptResumed(
                session_id="s",
                at=clock.now,
                turn=1,
                prompt_name="p",
                adapter="openai",
                model="m1",
                principal="bob",
            )
        )
        await session.record(responded(session, 1, "m1", 1, clock))

    assert [row.principal for row in rows(priced, kind="model")] == ["alice", "bob"]


async def test_deleted_payloads_take_their_rows_with_them(store: Store, clock: FakeClock) -> None:
    """The index has nothing that the ledger has not; calls that wait stay."""
    await play(store, clock)
    async with await Session.open(store, "shop", clock=clock) as session:
        await session.delete_payloads(by="ada")

    assert [(row.session_id, row.status) for row in rows(store)] == [
        ("shop", "waiting"),
        ("lab", "completed"),
    ]


async def test_a_deleted_session_has_no_rows(store: Store, clock: FakeClock) -> None:
    """Its calls are gone from every answer, and its sums too."""
    await play(store, clock)
    store.delete_session("shop")

    assert {row.session_id for row in rows(store, kind=None)} == {"lab"}
    assert [each.key for each in store.call_sums(CallQuery(), "principal")] == ["bob"]


@pytest.mark.parametrize("status", ["running", "completed"])
async def test_other_records_make_no_rows(
    store: Store, clock: FakeClock, status: RowStatus
) -> None:
    """Only calls and requests to models are listed."""
    async with await Session.open(store, "s", clock=clock) as session:
        await session.record(replace(event("s", "c1"), at=clock.now))

    assert rows(store, statuses=(status,)) == []


CHANGES = (
    "UPDATE calls SET status = 0 WHERE status = 1",
    "UPDATE calls SET principal = NULL WHERE seq = 3",
    "DELETE FROM calls WHERE status = 2",
)


@pytest.mark.parametrize(
    "change", [*CHANGES, "UPDATE names SET name = 'mallory' WHERE name = 'alice'"]
)
async def test_an_index_that_was_changed_is_found_and_made_anew(
    change: str, sqlite: SqliteStore, sqlite_path: Path, clock: FakeClock
) -> None:
    """The ledger is the truth: verification compares the index with it, reindexing restores it."""
    await play(sqlite, clock)
    before = rows(sqlite, kind=None)
    verify_session(sqlite, "shop")
    with closing(sqlite3.connect(sqlite_path)) as connection, connection:
        connection.execute(change)

    with pytest.raises(LedgerBroken, match="audit reindex"):
        verify_session(sqlite, "shop")
    sqlite.reindex()

    verify_session(sqlite, "shop")
    assert rows(sqlite, kind=None) == before


async def test_a_session_with_deleted_payloads_verifies(store: Store, clock: FakeClock) -> None:
    """Calls whose records are gone in part are not held against the index."""
    await play(store, clock)
    async with await Session.open(store, "shop", clock=clock) as session:
        await session.delete_payloads(by="ada")
        (waiting,) = session.approvals.pending()
        await session.approvals.decide(waiting.approval_id, Deny("no"), by="carol")
        await Executor(session, [pay]).call("pay", call_id=waiting.call_id)

    verify_session(store, "shop")
    assert [row.status for row in rows(store, session_id="shop")] == ["denied"]


async def test_reindexing_prices_what_had_no_price(sqlite_path: Path, clock: FakeClock) -> None:
    """What was written without a table of prices gets its cost later."""
    with SqliteStore(sqlite_path, clock=clock, prices=UNKNOWN_PRICES) as store:
        await play(store, clock)
        assert [each.cost for each in store.call_sums(CallQuery(), "day")] == [None]
    with SqliteStore(sqlite_path, clock=clock, prices=TenCents()) as store:
        store.reindex()
        assert [each.cost for each in store.call_sums(CallQuery(), "day")] == [0.3]


def test_sessions_are_listed_by_time_and_owner(store: Store, clock: FakeClock) -> None:
    """In both orders, page by page."""
    for number, owner in enumerate(["alice", "bob", "alice", "alice"]):
        clock.now = 100.0 + number
        store.acquire(f"s{number}", owner=owner)

    def listed(**filters: Any) -> list[str]:
        pages = every(
            lambda cursor: store.sessions(SessionQuery(**filters), cursor=cursor, limit=1)
        )
        return [info.session_id for info in pages]

    assert listed() == ["s0", "s1", "s2", "s3"]
    assert listed(newest_first=True) == ["s3", "s2", "s1", "s0"]
    assert listed(since=101.0, until=103.0) == ["s1", "s2"]
    assert listed(owner="alice", since=101.0, newest_first=True) == ["s3", "s2"]


async def test_a_call_that_is_asked_about_again_has_no_decision(
    store: Store, clock: FakeClock
) -> None:
    """A decision that a changed tool made void says nothing about the call any more."""
    first = request("a1", "s")
    again = replace(first, approval_id="a2", supersedes="a1")
    about: dict[str, Any] = {"session_id": "s", "call_id": "c1"}
    decided = Decided("a1", first.digest, Approve(), PERSON, 2.0)
    async with await Session.open(store, "s", clock=clock) as session:
        await session.record(ApprovalRequested(**about, at=1.0, request=first))
        await session.record(ApprovalDecided(**about, at=2.0, decided=decided))
        assert [(row.status, row.approver) for row in rows(store)] == [("approved", "ada")]
        await session.record(ApprovalRequested(**about, at=3.0, request=again))

    (row,) = rows(store)
    assert (row.status, row.decision, row.approver, row.at) == ("waiting", None, None, 1.0)
