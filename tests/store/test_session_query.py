"""Listings of sessions: titles, counts and filters, the same in every store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.facts import FakeClock
from tests.store.test_calls import TenCents, pay, play, priced, prompt
from toolcrib import Approve, Executor, Session
from toolcrib.ledger.prompt_events import SUMMARY_PROMPT, PromptStarted
from toolcrib.store import SqliteStore, Store
from toolcrib.store.session_query import LONGEST_TITLE, SessionQuery, title_of
from toolcrib.store.store import every

__all__ = ["priced"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(priced: Store) -> Store:
    """Each store, with prices that are known."""
    return priced


def ids(store: Store, **filters: Any) -> list[str]:
    query = SessionQuery(**filters)
    pages = every(lambda cursor: store.sessions(query, cursor=cursor, limit=1))
    return [info.session_id for info in pages]


async def say(session: Session, text: str, turn: int = 1, **about: Any) -> None:
    facts: dict[str, Any] = {"prompt_name": "chat", "digest": "d", "adapter": "a", "model": "m"}
    await session.record(
        PromptStarted(
            session_id=session.session_id, at=1.0, turn=turn, text=text, **{**facts, **about}
        )
    )


async def test_counts_of_sessions(store: Store, clock: FakeClock) -> None:
    """Calls, failures, what waits and the cost are those of the index of calls."""
    await play(store, clock)

    shop, lab = (store.summaries(["shop", "lab"])[name] for name in ("shop", "lab"))

    assert (shop.title, shop.title_source) == ("double", "call")
    assert (shop.prompts, shop.calls, shop.failures, shop.waiting) == (0, 7, 2, 1)
    assert shop.cost is None
    assert (lab.title, lab.title_source, lab.prompts, lab.calls) == ("hi", "prompt", 2, 1)
    assert lab.cost == 0.3
    assert store.summaries(["nobody"]) == {}


async def test_a_call_is_counted_once_through_its_states(store: Store, clock: FakeClock) -> None:
    """Waiting, decided, started and ended are states of one call."""
    async with await Session.open(store, "s", clock=clock) as session:
        executor = Executor(session, [pay])
        waiting = await executor.call("pay", {"amount": 1})
        before = store.summaries(["s"])["s"]
        await session.approvals.decide(waiting.call_id, Approve(), by="carol")
        await executor.call("pay", call_id=waiting.call_id)
        after = store.summaries(["s"])["s"]

    assert (before.calls, before.failures, before.waiting) == (1, 0, 1)
    assert (after.calls, after.failures, after.waiting) == (1, 0, 0)


async def test_filters_of_sessions(store: Store, clock: FakeClock) -> None:
    """By tool, by failures, by what waits; each page by page and in both orders."""
    await play(store, clock)

    assert ids(store) == ["shop", "lab"]
    assert ids(store, newest_first=True) == ["lab", "shop"]
    assert ids(store, tool="double", newest_first=True) == ["lab", "shop"]
    assert ids(store, tool="p*") == ["shop"]
    assert ids(store, tool="nothing") == []
    assert (ids(store, has_failures=True), ids(store, has_failures=False)) == (["shop"], ["lab"])
    assert (ids(store, is_waiting=True), ids(store, is_waiting=False)) == (["shop"], ["lab"])
    assert ids(store, tool="double", is_waiting=True, owner="bob") == []


async def test_words_are_looked_for_everywhere(store: Store, clock: FakeClock) -> None:
    """In title, id, owner and metadata; all words, capitals or not, and `%` is no wildcard."""
    settings = {"host": {"setup": {"metadata": {"ticket": "OPS-7"}, "cwd": "/srv/hidden"}}}
    store.release(store.acquire("first:one", settings=settings, owner="Ada"))
    for name, text in (("first:one", "Überprüfe 100% der Orders"), ("second", "Count the _apples")):
        async with await Session.open(store, name, clock=clock) as session:
            await say(session, text)

    def found(text: str) -> list[str]:
        return ids(store, text=text)

    assert (
        found("ÜBERPRÜFE")
        == found("überprüfe")
        == found("ORDERS first")
        == found("ada")
        == ["first:one"]
    )
    assert found("ops-7") == found("100%") == ["first:one"]
    assert found("_apples") == ["second"]
    assert found("%") == ["first:one"]
    assert found("s_cond") == found("orders apples") == found("hidden") == []
    assert found("  ") == ["first:one", "second"]


async def test_the_title_is_what_somebody_said_first(store: Store, clock: FakeClock) -> None:
    """Not what a tool or a summary asks a model for, and not a later prompt."""
    async with await Session.open(store, "s", clock=clock) as session:
        await say(session, "inner", 1, parent_call_id="call_1")
        await say(session, "shorten", 2, prompt_name=SUMMARY_PROMPT)
        await say(session, "  Refund\n order 12 \x1b[31m", 3)
        await say(session, "and order 13", 4)

    summary = store.summaries(["s"])["s"]
    assert (summary.title, summary.prompts) == ("Refund order 12 [31m", 2)


async def test_deleted_payloads_take_the_title_with_them(store: Store, clock: FakeClock) -> None:
    """A title is words of a payload: none of it is left, in the file neither."""
    async with await Session.open(store, "s", clock=clock) as session:
        await say(session, "a secret plan", 1)
        await prompt(session, "m1", 3, clock)
        head = session.head()
        assert head is not None
        await say(session, "the next one", 4)
        store.delete_payloads(session.ledger.lease, head.seq)

        summary = store.summaries(["s"])["s"]
        assert (summary.title, summary.prompts, summary.cost) == ("the next one", 1, None)
        assert ids(store, text="secret") == []


async def test_a_deleted_session_leaves_no_summary(sqlite_path: Path, clock: FakeClock) -> None:
    """A new session of the same id begins at nothing."""
    with SqliteStore(sqlite_path, clock=clock) as store:
        async with await Session.open(store, "s", clock=clock) as session:
            await say(session, "old words")
        store.delete_session("s")
        store.release(store.acquire("s"))
        assert store.summaries(["s"])["s"].title is None
    with closing(sqlite3.connect(sqlite_path)) as connection:
        assert connection.execute("SELECT * FROM summaries").fetchall() == []


async def test_reindexing_counts_the_same(sqlite_path: Path, clock: FakeClock) -> None:
    """The counts are a function of the ledgers."""
    with SqliteStore(sqlite_path, clock=clock, prices=TenCents()) as store:
        await play(store, clock)
        before = store.summaries(["shop", "lab"])
        store.reindex()
        assert store.summaries(["shop", "lab"]) == before


async def test_records_before_a_number(store: Store, clock: FakeClock) -> None:
    """Backwards from any record, in pages, as forwards."""
    async with await Session.open(store, "s", clock=clock) as session:
        for turn in range(1, 10):
            await say(session, "x", turn)
        session.head()

        def numbers(**options: Any) -> list[int]:
            return [record.seq for record in store.records("s", **options)]

        every_number = numbers()
        last = every_number[-1]
        assert numbers(before=last, limit=2, newest_first=True) == [last - 1, last - 2]
        assert numbers(after=2, before=5) == [3, 4]
        assert numbers(before=1) == numbers(before=0) == []
        assert numbers(before=last + 5, newest_first=True) == every_number[::-1]


def test_titles_are_short_and_in_one_line() -> None:
    """Whatever a prompt holds, also text that no database takes."""
    assert title_of("x" * 5000) == "x" * LONGEST_TITLE
    assert title_of("a\ud800b\x00c") == "a b c"
    assert title_of(" \n ") is None
    assert title_of(None) is None
