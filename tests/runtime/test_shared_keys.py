"""What two replicas are asked for under one key is done by one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256

import pytest
from pydantic_core import to_json

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import refusal, serving
from toolcrib.errors import Refused
from toolcrib.runtime.idempotency import IdempotencyKeys
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import KeyClaim, PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.testing import FakeClock

KEY = new_key()
RACES = 200
LEASE_SECONDS = 60.0
"""So long that no row is renewed while a test moves the clock."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stores(postgres_url: str, clock: FakeClock) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two replicas."""
    with (
        PostgresStore(postgres_url, clock=clock, key=KEY, lease_seconds=LEASE_SECONDS) as a,
        PostgresStore(postgres_url, clock=clock, key=KEY, lease_seconds=LEASE_SECONDS) as b,
    ):
        yield a, b


@asynccontextmanager
async def replicas(url: str) -> AsyncGenerator[tuple[Runtime, Runtime]]:
    with PostgresStore(url, key=KEY) as a, PostgresStore(url, key=KEY) as b:
        async with serving(store=a) as first, serving(store=b) as second:
            yield first, second


class Work:
    """Counts how often the work of each key is done."""

    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys
        self.done: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()
        self.is_open = asyncio.Event()
        self.is_entered = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, key: str, params: str = "") -> str:
        async def work() -> str:
            self.is_entered.set()
            await self.is_open.wait()
            if self.error is not None:
                raise self.error
            self.done[key] += 1
            return f"{id(self)} {key}"

        async def repeat(claim: KeyClaim) -> str:
            if claim.outcome is None:
                self.repeated[key] += 1
                return await work()
            return claim.outcome.decode()

        return await self._keys.run(
            ("ann", "x", key), params, work, repeat, session_id="s", outcome=str.encode
        )


@pytest.fixture
def works(stores: tuple[PostgresStore, PostgresStore], clock: FakeClock) -> tuple[Work, Work]:
    a, b = (Work(IdempotencyKeys(store, clock)) for store in stores)
    return a, b


async def test_of_two_replicas_one_does_the_work(works: tuple[Work, Work]) -> None:
    """Hundreds of keys, each sent to both replicas at once: each is done once, and both answer
    with what the one that did it answers.
    """
    for work in works:
        work.is_open.set()
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(
            *(work.ask(f"k{number}") for number in range(RACES) for work in works)
        )

    assert Counter(works[0].done) + Counter(works[1].done) == Counter(
        f"k{number}" for number in range(RACES)
    )
    assert all(works[at].repeated.total() == 0 for at in (0, 1))
    assert len(set(answers)) == RACES


async def test_the_other_replica_waits(works: tuple[Work, Work]) -> None:
    """While the work runs at one replica, the other does not begin it; parameters that differ are
    a conflict at once.
    """
    a, b = works
    b.is_open.set()
    first = asyncio.create_task(a.ask("k"))
    await a.is_entered.wait()
    with pytest.raises(Refused, match="other parameters"):
        await b.ask("k", "other")
    second = asyncio.create_task(b.ask("k"))
    done, _ = await asyncio.wait([second], timeout=0.7)
    assert not done
    a.is_open.set()
    async with asyncio.timeout(PATIENCE):
        assert await second == await first
    assert b.done.total() == 0


async def test_a_replica_that_is_gone_leaves_its_keys(
    stores: tuple[PostgresStore, PostgresStore], works: tuple[Work, Work], clock: FakeClock
) -> None:
    """Once the row of the winner has expired, the replica that waits goes on with its work; what
    the winner says later changes nothing.
    """
    (store_a, store_b), (_, b) = stores, works
    b.is_open.set()
    claim = KeyClaim("ann", "x", "k", _digest(), "s", 1.0, 0, holder=store_a.replica_id)
    assert store_a.claim_key(claim) is None
    waiting = asyncio.create_task(b.ask("k"))
    done, _ = await asyncio.wait([waiting], timeout=0.7)
    assert not done
    await asyncio.to_thread(store_a.close)
    async with asyncio.timeout(PATIENCE):
        answer = await waiting
    assert (b.repeated["k"], b.done["k"]) == (1, 1)

    store_b.release_key(claim)
    store_b.settle_key(replace(claim, outcome=b"late"))
    kept = store_b.claim_key(replace(claim, holder=store_b.replica_id))
    assert kept is not None
    assert kept.outcome == answer.encode()


async def test_an_expired_replica_counts_as_gone(
    stores: tuple[PostgresStore, PostgresStore], clock: FakeClock
) -> None:
    """A claim is taken over by one claimant, only after the holder's lease, and only for the same
    parameters.
    """
    a, b = stores
    claim = KeyClaim("ann", "x", "k", "d", "s", 1.0, 0, holder="0" * 16)
    held = replace(claim, holder=a.replica_id)
    assert a.claim_key(held) is None
    asked = replace(claim, holder=b.replica_id)
    assert b.claim_key(asked) == held
    clock.advance(LEASE_SECONDS + 1)
    assert b.claim_key(replace(asked, params_digest="e")) == held
    assert b.claim_key(asked) == asked
    assert b.claim_key(asked) == asked


async def test_work_that_failed_is_gone_on_with_anywhere(works: tuple[Work, Work]) -> None:
    """A replica whose work fails lets go of the key: the other does not wait for it. After a
    refusal nothing was begun.
    """
    a, b = works
    a.is_open.set()
    b.is_open.set()
    for error, repeated in ((RuntimeError("cut off"), 1), (Refused("conflict", "busy"), 0)):
        key = type(error).__name__
        a.error = error
        with pytest.raises(type(error)):
            await a.ask(key)
        async with asyncio.timeout(PATIENCE):
            await b.ask(key)
        assert (b.repeated[key], b.done[key]) == (repeated, 1)


async def test_a_session_is_created_once_by_two_runtimes(postgres_url: str) -> None:
    """Each key gives one session, whichever replica is asked, and the same answer at both."""
    async with replicas(postgres_url) as (first, second):
        asked = [{"metadata": {"n": n}, "idempotency_key": f"k{n}"} for n in range(20)]
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(
                *(at.ask("session.create", params) for params in asked for at in (first, second))
            )
        other = await refusal(second, "session.create", {"idempotency_key": "k1"})
        again = await second.ask("session.create", asked[0])

    ids = [answer.session_id for answer in answers]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == len(asked)
    assert {answer.state for answer in answers} == {"open"}
    assert again.session_id == ids[0]
    assert other.kind == "conflict"


def _digest() -> str:
    return sha256(to_json("")).hexdigest()
