"""The examination after a chaos run finds what it looks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

import asyncpg
import pytest

from tests.chaos.disturbance import DisturbanceLog
from tests.chaos.people import People
from tests.chaos.replicas import Replicas
from tests.chaos.verdict import Examination
from tests.chaos.witness import Witness
from tests.chaos.world import KEYED, PLAIN, Effect, World
from toolcrib import Executor, Session, tool
from toolcrib.store import PostgresStore

pytestmark = pytest.mark.wire

SESSIONS = (f"{KEYED}_1", f"{PLAIN}_1")


@tool
async def charge(n: int) -> str:
    """Charge money.

    Args:
        n: The step.
    """
    return f"charged {n}"


@pytest.fixture
async def store(postgres_url: str) -> PostgresStore:
    """The store of two sessions with a call each."""
    opened = PostgresStore(postgres_url)
    for session_id in SESSIONS:
        async with await Session.open(opened, session_id=session_id) as session:
            await Executor(session, tools=[charge]).call("charge", {"n": 1}, call_id="c1")
    return opened


@pytest.fixture
def examination(store: PostgresStore) -> Iterator[Examination]:
    """All is well: each call had its effect, and nobody knows of anything else."""
    people = People(cast(Replicas, None), cast(World, None))
    effects = [effect(session_id) for session_id in SESSIONS]
    yield Examination(store, Witness(), people, DisturbanceLog(), effects, [*effects])
    store.close()


def effect(session_id: str) -> Effect:
    return Effect(session_id, "c1", "charge", "a#1", time.time())


def again(session_id: str) -> Callable[[Examination], None]:
    """An effect that came once more."""
    return lambda given: cast(list[Effect], given.effects).append(effect(session_id))


def unanswered(given: Examination) -> None:
    given.witness.prompts[f"{SESSIONS[0]}/0"] = "accepted"


def missing(given: Examination) -> None:
    given.witness.sessions.add("another")


def changed(given: Examination) -> None:
    given.witness.hashes[SESSIONS[0], 1] = "0" * 64


def unseen(given: Examination) -> None:
    given.witness.events[SESSIONS[0], 1_000] = "an event that is not there"


def untold(given: Examination) -> None:
    given.witness.results[SESSIONS[0], "c2"] = "completed"


def test_a_run_in_which_all_is_well_has_no_failures(examination: Examination) -> None:
    """What the others disturb."""
    verdict = examination.verdict("quiet")

    assert verdict.failures == []
    assert verdict.calls == len(SESSIONS)


@pytest.mark.parametrize(
    ("disturb", "rule"),
    [
        (unanswered, "turns were lost"),
        (missing, "acknowledged records were lost"),
        (changed, "acknowledged records were lost"),
        (unseen, "acknowledged records were lost"),
        (untold, "acknowledged records were lost"),
        (again(SESSIONS[0]), "where the world keeps the key"),
        (again(SESSIONS[1]), "nobody approved it"),
    ],
)
def test_what_was_lost_or_came_twice_is_found(
    examination: Examination, disturb: Callable[[Examination], None], rule: str
) -> None:
    """Each rule fails for its own reason, and for no other."""
    disturb(examination)

    [failure] = examination.verdict("disturbed").failures

    assert rule in failure


def test_a_chain_that_was_tampered_with_is_found(
    examination: Examination, postgres_url: str
) -> None:
    """One record says something else than it did."""

    async def tamper() -> None:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute("UPDATE records SET at = at + 1 WHERE seq = 2")
        await connection.close()

    asyncio.run(tamper())

    assert "chains are broken" in examination.verdict("tampered").failures[0]
