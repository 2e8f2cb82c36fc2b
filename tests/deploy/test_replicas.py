"""Replicas behind a balancer, as deploy/compose.replicas.yaml starts them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from tests.deploy.replica_set import ReplicaSet
from toolcrib.client import AsyncClient
from toolcrib.ledger.record import verify
from toolcrib.store import PostgresStore

pytestmark = [pytest.mark.wire, pytest.mark.slow]

SESSIONS = 5
"""An odd number: with an even one, two replicas in turn would each get what they have open."""
ROOT = Path(__file__).parents[2]


async def test_any_replica_answers_for_any_session(tmp_path: Path, postgres_url: str) -> None:
    """Requests go round: sessions are made at either replica, and each call reaches the one that
    has its session, wherever the balancer sends it. Nothing for operators passes the balancer.
    """
    replicas = ReplicaSet(tmp_path, postgres_url)
    async with replicas.replica(0) as first, replicas.replica(1) as second:
        async with (
            replicas.balancer() as url,
            AsyncClient(url, replicas.token) as client,
            httpx2.AsyncClient(trust_env=False) as stranger,
        ):
            names = [f"s{number}" for number in range(SESSIONS)]
            for name in names:
                await client.create_session(session_id=name)
            for number in range(SESSIONS * 3):
                outcome = await client.call_tool(
                    names[number % SESSIONS], "note", {"number": number}
                )
                assert outcome.status == "completed", outcome
            for path in ("/metrics", "/readyz", "/v1/replica/operations"):
                assert (await stranger.get(url + path)).status_code == 404
        assert (await first.stop(), await second.stop()) == (0, 0)

    assert sorted(map(int, replicas.notes.read_text().split())) == list(range(SESSIONS * 3))
    check_ledgers(postgres_url, names, SESSIONS * 3)


def check_ledgers(url: str, names: Sequence[str], calls: int) -> None:
    """Every chain verifies, and every call ended once."""
    ended: Counter[str] = Counter()
    with PostgresStore(url) as store:
        for name in names:
            session_id = name
            verify(store.records(session_id), store.head(session_id))
            for record in store.records(session_id, kinds=["tool.invoked"]):
                ended[f"{session_id} {record.call_id}"] += 1
            assert store.open_calls(session_id) == []
    assert len(ended) == calls
    assert set(ended.values()) == {1}
