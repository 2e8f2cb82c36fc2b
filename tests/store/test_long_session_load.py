"""The length of a session's ledger changes nothing in what its next turn costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.long_ledger import grow, recorded_turn
from tests.servers.postgres import PostgresServer
from toolcrib import MarkdownSection, Prompt, Session, SqliteStore
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.store import PostgresStore
from toolcrib.testing import ScriptedOpenAI, says

SHORT, LONG = 100, 10_000
TIMES_SHORT = 1.5
ROUNDS = 7
PROMPT = Prompt(
    ns="load", key="long", sections=[MarkdownSection(title="Task", key="task", template="Add.")]
)

OpenStore = Callable[[], SqliteStore | PostgresStore]


async def fill(open_store: OpenStore, count: int) -> str:
    """A session with so many records, in a store of its own."""
    with open_store() as store:
        async with await Session.open(store) as session:
            session_id = session.session_id
        grow(store, session_id, count, await recorded_turn())
    return session_id


async def next_turn(open_store: OpenStore, session_id: str) -> float:
    """The seconds from the open store to the answer."""
    script = ScriptedOpenAI([says("3")])
    adapter = OpenAIAdapter(model="m", client=script.client())
    with open_store() as store:
        # The first work of a replica is to say that it is there.
        async with await Session.open(store):
            pass
        began = time.perf_counter()
        async with await Session.open(store, session_id) as session:
            await adapter.evaluate_async(PROMPT, session=session, follows=True)
        spent = time.perf_counter() - began
    assert "previous_response_id" in script.requests[0]
    return spent


@pytest.fixture(params=["sqlite", "postgres"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> dict[int, OpenStore]:
    """What opens a store for the short session, and another for the long one."""
    if request.param == "sqlite":
        return {count: partial(SqliteStore, tmp_path / f"{count}") for count in (SHORT, LONG)}
    server: PostgresServer = request.getfixturevalue("postgres")
    return {count: partial(PostgresStore, server.database()) for count in (SHORT, LONG)}


@pytest.mark.load
async def test_the_next_turn_costs_the_same_in_a_long_session(opens: dict[int, OpenStore]) -> None:
    """Opening a session of 10,000 records and asking once more takes at most 1.5 times as long as
    with 100, also before the database has analysed its tables. The best of some rounds counts.
    """
    sessions = {count: await fill(open_store, count) for count, open_store in opens.items()}

    seconds: dict[int, list[float]] = {count: [] for count in opens}
    for _ in range(ROUNDS):
        for count, open_store in opens.items():
            seconds[count].append(await next_turn(open_store, sessions[count]))

    assert min(seconds[LONG]) <= TIMES_SHORT * min(seconds[SHORT])
