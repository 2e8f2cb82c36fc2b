"""Health checks: for anybody, without detail, and true."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import TOKENS, served
from toolcrib import SqliteStore
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.connections import ListenerLimits
from toolcrib.serving.health import KEEP_SECONDS, Readiness
from toolcrib.testing import FakeClock
from toolcrib.transports.http.server import HttpServer

STRANGER = {"Authorization": "", "Host": "10.1.2.3:8420"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_check_needs_no_token_and_no_name(path: str) -> None:
    """A load balancer has no token and sends the address of the machine as its Host; it learns
    `ok` and nothing else.
    """
    async with served() as crib:
        answer = await crib.client.get(path, headers=STRANGER)
        head = await crib.client.head(path, headers=STRANGER)

    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert (head.status_code, head.text) == (200, "")
    assert not {"server", "x-request-id"} & set(answer.headers)


async def test_a_check_writes_nothing_to_change_anything() -> None:
    """Only GET and HEAD are checks; the rest is behind the login like everything else."""
    async with served() as crib:
        answer = await crib.client.post("/healthz", headers={"Authorization": ""})

    assert answer.status_code == 401


async def test_strangers_who_take_every_place_do_not_hold_up_a_check() -> None:
    """The newest stranger gets the place of the oldest, so a probe always gets in."""
    async with served(listener=ListenerLimits(connections=8)) as crib:
        host, _, port = crib.server.url.removeprefix("http://").partition(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
        async with httpx2.AsyncClient(base_url=crib.server.url, timeout=PATIENCE) as probe:
            answer = await probe.get("/readyz")
        for _, writer in idle:
            writer.close()

    assert answer.status_code == 200


async def test_a_server_is_not_ready_before_its_runtime_and_after_it() -> None:
    """A balancer sends nobody to a process that would refuse everything, though it is alive."""
    runtime = create_runtime(RuntimeConfig(drain_seconds=0.1))
    async with (
        HttpServer(runtime, port=0, tokens=TOKENS) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as probe,
    ):
        before = await probe.get("/readyz")
        await runtime.start()
        between = await probe.get("/readyz")
        await runtime.close()
        after = await probe.get("/readyz")
        alive = await probe.get("/healthz")

    assert (before.status_code, before.text) == (503, "not ready\n")
    assert between.status_code == 200
    assert (after.status_code, alive.status_code) == (503, 200)


async def test_a_server_that_stops_is_not_ready() -> None:
    """A connection that is still open learns of the end before it comes."""
    async with served() as crib:
        crib.server.stop()

        assert not await crib.server.readiness.check()


async def test_a_store_that_another_process_locks_is_not_ready(sqlite_path: Path) -> None:
    """What cannot be written down cannot run, so nobody should be sent here; when the store can be
    written to again, the server is ready again. Nothing of the probe is left in the store.
    """
    store = SqliteStore(sqlite_path)
    async with served(store=store) as crib:
        assert (await crib.client.get("/readyz")).status_code == 200
        with sqlite3.connect(sqlite_path, isolation_level=None) as other:
            hasty = Readiness(lambda: True, store, patience=0.1)
            other.execute("BEGIN EXCLUSIVE")
            assert not await hasty.check()
            other.execute("ROLLBACK")
            assert await Readiness(lambda: True, store, patience=PATIENCE).check()
            # The hasty probe, which nobody waited for, goes on once it gets the lock.
            async with asyncio.timeout(PATIENCE):
                count = "SELECT count(*) FROM keys"
                while other.execute(count).fetchone() != (0,):  # noqa: ASYNC110 - a thread's end
                    await asyncio.sleep(0.01)
    store.close()


async def test_a_store_that_is_gone_is_not_ready(sqlite_path: Path) -> None:
    """The check reports the fault; it does not fail itself, and does not say what is wrong."""
    store = SqliteStore(sqlite_path)
    async with served(store=store) as crib:
        store.close()
        answer = await crib.client.get("/readyz", headers=STRANGER)

    assert (answer.status_code, answer.text) == (503, "not ready\n")


async def test_strangers_cannot_have_the_store_written_to(sqlite_path: Path) -> None:
    """However many ask, the store is tried once in a while, and by one of them."""
    clock, store = FakeClock(), SqliteStore(sqlite_path)
    readiness = Readiness(lambda: True, store, elapsed=clock)
    claims: list[object] = []
    claim_key = store.claim_key
    store.claim_key = lambda claim: (claims.append(claim), claim_key(claim))[1]

    await asyncio.gather(*(readiness.check() for _ in range(50)))
    assert len(claims) == 1
    clock.advance(KEEP_SECONDS / 2)
    assert await readiness.check()
    assert len(claims) == 1
    clock.advance(KEEP_SECONDS)
    assert await readiness.check()
    assert len(claims) == 2
    store.close()
