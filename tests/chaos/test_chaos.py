"""The short form of `make chaos`: the same run with fewer disturbances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import ChaosPlan, chaos, servers
from tests.servers.temporal import TemporalServer

pytestmark = pytest.mark.chaos

LEAST_TURNS = 10
"""A run in which fewer turns ended shows nothing."""


async def examine(plan: ChaosPlan, folder: Path) -> None:
    with servers() as places:
        verdict = await chaos(plan, places, folder)
    print(f"\n{verdict.report()}")

    assert verdict.failures == []
    assert verdict.turns >= LEAST_TURNS
    assert verdict.in_doubt > 0


async def test_replicas_on_postgresql_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    """Kills, pauses longer than the lease, a cut line and a crash of the database: every turn is
    answered, every record that somebody saw is there, and no effect came twice but those that a
    person approved without a key.
    """
    await examine(ChaosPlan(disturbances=16), tmp_path)


async def test_the_same_with_temporal_driving(tmp_path: Path, temporal: TemporalServer) -> None:
    """The engine repeats its open steps, and the ledger decides what is left of them."""
    options = ("--engine", "temporal", "--engine-address", temporal.address)
    plan = ChaosPlan(disturbances=8, options=options, engine="Temporal")
    await examine(plan, tmp_path)
