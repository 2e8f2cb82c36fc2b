"""Every engine on a real PostgreSQL and real runtimes: a prompt that waits for a person is accepted
by one process, run by another, decided at the first, and answered.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack
from typing import Any

import procrastinate
import pytest

from tests.engines.shared_runtime import approve, front, replicas, until, worker
from tests.engines.test_procrastinate import page_names
from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import Json, kinds, new_session, serving
from tests.servers.postgres import PostgresServer
from tests.servers.temporal import TemporalServer
from toolcrib.engines import PostgresEngine, QueueEngine
from toolcrib.engines.temporal import TemporalEngine, TemporalOptions
from toolcrib.errors import UsageError
from toolcrib.runtime.runtime import Runtime

pytestmark = pytest.mark.wire


async def converse(client: Runtime) -> tuple[Any, list[str]]:
    """Send a prompt, approve its call, and wait for the answer."""
    session_id = await new_session(client)
    sent = asyncio.ensure_future(
        client.ask("prompt.send", {"session_id": session_id, "text": "how many?"})
    )
    await approve(client)
    result = await asyncio.wait_for(sent, PATIENCE)
    return result, await kinds(client, session_id)


def check(result: Any, ran: list[str]) -> None:
    assert (result.status, result.text) == ("completed", "five")
    assert ran.count("prompt.started") == 1
    assert ran.count("tool.invoked") == 1


async def test_postgres_alone(postgres_url: str) -> None:
    """The engine by its name is the one that a runtime has by itself."""
    with replicas(postgres_url, 2) as stores:
        async with (
            serving(store=stores[0], **front()) as client,
            serving(store=stores[1], engine=PostgresEngine(max_turns=2), **worker()),
        ):
            check(*await converse(client))


async def test_a_queue(postgres_url: str) -> None:
    """A queue that somebody else runs: here an `asyncio.Queue`, whose worker calls `advance`."""
    waiting: asyncio.Queue[str] = asyncio.Queue()
    engine, other = QueueEngine(waiting.put, poll_seconds=0.2), QueueEngine(waiting.put)

    async def work(runtime: Runtime) -> None:
        while True:
            await runtime.advance(await waiting.get())

    with replicas(postgres_url, 2) as stores:
        async with (
            serving(store=stores[0], engine=other, **front()) as client,
            serving(store=stores[1], engine=engine, **worker()) as runtime,
        ):
            working = asyncio.create_task(work(runtime))
            conversation = await converse(client)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    check(*conversation)


async def test_procrastinate(postgres: PostgresServer, postgres_url: str) -> None:
    """The block of docs/engines.md as it is."""
    queue_url = await asyncio.to_thread(postgres.database)
    connector = procrastinate.PsycopgConnector(conninfo=queue_url)
    app = procrastinate.App(connector=connector)
    runtimes: list[Runtime] = []
    with replicas(postgres_url, 2) as stores:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app.open_async())
            await app.schema_manager.apply_schema_async()
            engine: QueueEngine = page_names()["turns_on"](app, runtimes)
            client = await stack.enter_async_context(serving(store=stores[0], **front()))
            runtimes.append(
                await stack.enter_async_context(serving(store=stores[1], engine=engine, **worker()))
            )
            working = asyncio.create_task(
                app.run_worker_async(
                    queues=["turns"], install_signal_handlers=False, fetch_job_polling_interval=0.1
                )
            )
            conversation = await converse(client)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    check(*conversation)


def temporal_options(server: TemporalServer, task_queue: str, **options: Any) -> TemporalOptions:
    return TemporalOptions(
        address=server.address,
        task_queue=task_queue,
        heartbeat_seconds=2.0,
        poll_seconds=0.5,
        **options,
    )


async def test_temporal(postgres_url: str, temporal: TemporalServer) -> None:
    """A front that only asks, and a worker whose activities advance the turn."""
    task_queue = uuid.uuid4().hex
    asks = TemporalEngine(temporal_options(temporal, task_queue, runs_turns=False))
    works = TemporalEngine(temporal_options(temporal, task_queue))
    with replicas(postgres_url, 2) as stores:
        async with (
            serving(store=stores[0], engine=asks, **front()) as client,
            serving(store=stores[1], engine=works, **worker()),
        ):
            check(*await converse(client))


async def test_a_prompt_is_cancelled_whatever_drives_it(
    postgres_url: str, temporal: TemporalServer
) -> None:
    """A turn that waits, driven by Temporal, ends when a client cancels it."""
    engine = TemporalEngine(temporal_options(temporal, uuid.uuid4().hex))
    with replicas(postgres_url, 1) as (store,):
        async with serving(store=store, engine=engine, **worker()) as client:
            session_id = await new_session(client)
            params: Json = {"session_id": session_id}
            sent = asyncio.ensure_future(client.ask("prompt.send", {**params, "text": "go"}))
            await until(lambda: [t.state for t in store.turns(**params)] == ["waiting"])
            cancelled = await client.ask("prompt.cancel", params)
            result = await asyncio.wait_for(sent, PATIENCE)
    assert cancelled.was_running
    assert result.status == "cancelled"


@pytest.mark.parametrize("options", [{"max_turns": 0}, {"poll_seconds": 0.0}])
def test_an_engine_that_could_do_nothing_is_refused(options: Json) -> None:
    """What it would wait for never comes."""
    with pytest.raises(UsageError):
        PostgresEngine(**options)
