"""Two replicas do the same at the same moment: one of them wins, and both know who."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

from tests.store.facts import PERSON, grant, request, write
from toolcrib.approval.decision import Approve, Decided, Deny
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.store.postgres.schema import ensure_schema
from toolcrib.store.store import ApprovalFiled, KeyClaim

pytestmark = pytest.mark.slow

COUNT = 1_000
Rivals = tuple[PostgresStore, PostgresStore]


@pytest.fixture
def rivals(postgres_url: str) -> Iterator[Rivals]:
    """Two replicas that share a database."""
    key = new_key()
    with PostgresStore(postgres_url, key=key) as one, PostgresStore(postgres_url, key=key) as two:
        yield one, two


def raced(rivals: Rivals, does: Callable[[PostgresStore, int, int], bool]) -> list[int]:
    """How many of the two won each number. Both do all, from several threads, in an order that
    makes them meet.
    """
    rng = random.Random(16)
    order = [*range(COUNT)]
    rng.shuffle(order)
    wins = [0] * COUNT
    with ThreadPoolExecutor(16) as pool:
        tries = [
            (number, pool.submit(does, store, side, number))
            for number in order
            for side, store in enumerate(rivals)
        ]
        for number, won in tries:
            wins[number] += won.result()
    return wins


def test_of_two_decisions_about_a_request_one_is_taken(rivals: Rivals) -> None:
    """1,000 requests, each approved at one replica and denied at the other: one of the two holds,
    and it is the one whose replica was told so.
    """
    one, _ = rivals
    lease = one.acquire("s")
    write(one, lease, 1, [ApprovalFiled(request(f"a{number}")) for number in range(COUNT)])
    told: dict[int, str] = {}

    def decide(store: PostgresStore, side: int, number: int) -> bool:
        decision = Approve() if side == 0 else Deny("no")
        won = store.decide(Decided(f"a{number}", "d1", decision, PERSON, time.time()))
        if won:
            told[number] = decision.kind
        return won

    assert raced(rivals, decide) == [1] * COUNT
    for number in range(COUNT):
        filed = one.approval(f"a{number}")
        assert filed is not None
        assert filed.decided is not None
        assert filed.decided.decision.kind == told[number]
    one.release(lease)


def test_of_two_uses_of_the_last_use_of_a_grant_one_is_granted(rivals: Rivals) -> None:
    """1,000 grants with one use left, and one grant with 1,000: no use is given twice, none is
    lost.
    """
    one, _ = rivals
    for number in range(COUNT):
        one.add_grant(grant(f"g{number}", uses_left=1))
    one.add_grant(grant("many", uses_left=COUNT))

    wins = raced(rivals, lambda store, _, number: store.use_grant(f"g{number}", time.time()))
    uses = raced(rivals, lambda store, _, __: store.use_grant("many", time.time()))

    assert wins == [1] * COUNT
    assert sum(uses) == COUNT
    assert not one.use_grant("many", time.time())


def test_of_two_claims_of_an_idempotency_key_one_is_the_first(rivals: Rivals) -> None:
    """1,000 keys: one replica may do the work, the other one learns that it is being done."""
    one, _ = rivals
    lease = one.acquire("s")

    def claim(store: PostgresStore, side: int, number: int) -> bool:
        mine = KeyClaim("ada", "tools.call s", f"k{number}", f"digest {side}", "s", time.time())
        other = store.claim_key(mine)
        assert other is None or other.params_digest == f"digest {1 - side}"
        return other is None

    assert raced(rivals, claim) == [1] * COUNT
    one.release(lease)


class _InBetween:
    """A connection that lets another replica make the tables between two of its questions."""

    def __init__(self, connection: Any, happens: Callable[[], Any]) -> None:
        self._connection = connection
        self._happens = happens
        self._questions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetchval(self, *query: Any) -> Any:
        self._questions += 1
        if self._questions == 2:
            await self._happens()
        return await self._connection.fetchval(*query)


async def test_replicas_that_start_at_once_on_an_empty_database_all_start(
    postgres_url: str,
) -> None:
    """Tables that another replica makes in this moment are not taken for those of another program;
    and of eight that open an empty database at once, each finds its tables.
    """
    one, two = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    try:
        between: Any = _InBetween(one, lambda: ensure_schema(two, "there"))
        await ensure_schema(between, "here")
    finally:
        await one.close()
        await two.close()

    def opened(_: int) -> list[str]:
        with PostgresStore(postgres_url, key=new_key()) as store:
            return [session.session_id for session in store.sessions().items]

    with ThreadPoolExecutor(8) as pool:
        found = await asyncio.to_thread(lambda: [*pool.map(opened, range(8))])
    assert found == [[]] * 8
