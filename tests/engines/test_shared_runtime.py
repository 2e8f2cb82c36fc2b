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
from tests.runtime.host_runtime import (
    Json,
    host_tool,
    kinds,
    model,
    new_session,
    registry_of,
    serving,
)
from tests.servers.postgres import PostgresServer
from tests.servers.temporal import TemporalServer
from toolcrib.engines import PostgresEngine, QueueEngine
from toolcrib.engines.temporal import TemporalEngine, TemporalOptions
from toolcrib.errors import Refused, UsageError
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.turn_engine import TurnEngine
from toolcrib.store import PostgresStore
from toolcrib.testing import says

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


def changed_worker() -> Json:
    """A worker after an upgrade: its tool takes one number more."""
    numbers = {"type": "object", "properties": {name: {"type": "integer"} for name in "abc"}}
    registry = registry_of(host_tool("add", parameters=numbers, requires_approval=True))
    return {"host_tool_registry": registry, "adapter": model([says("not five")])}


async def decided_after_an_upgrade(
    stores: list[PostgresStore], asks: TurnEngine | None, works: list[TurnEngine]
) -> tuple[Refused, Any, list[str]]:
    """Send a prompt whose call waits, replace the worker, approve what was asked before, and send
    another prompt.
    """
    async with serving(store=stores[0], engine=asks, **front()) as client:
        async with serving(store=stores[1], engine=works[0], **worker()):
            session_id = await new_session(client)
            params: Json = {"session_id": session_id}
            prompt = {**params, "text": "how many?"}
            sent = asyncio.ensure_future(client.ask("prompt.send", prompt))
            await until(lambda: [t.state for t in stores[0].turns(**params)] == ["waiting"])
        async with serving(store=stores[2], engine=works[1], **changed_worker()):
            await approve(client)
            with pytest.raises(Refused) as refused:
                await asyncio.wait_for(sent, PATIENCE)
            asked = asyncio.ensure_future(client.ask("prompt.send", {**params, "text": "again"}))
            result = await asyncio.wait_for(asked, PATIENCE)
        return refused.value, result, await kinds(client, session_id)


@pytest.mark.parametrize("engine", ["PostgreSQL", "Temporal"])
async def test_a_turn_whose_tool_changed_before_the_decision_ends(
    postgres_url: str, temporal: TemporalServer, engine: str
) -> None:
    """What was approved is not what would run. The turn ends with a refusal that says so, whatever
    drives it: nothing runs, nobody tries for ever, and the next prompt is answered.
    """
    asks: TurnEngine | None = None
    works: list[TurnEngine] = [PostgresEngine(), PostgresEngine()]
    if engine == "Temporal":
        task_queue = uuid.uuid4().hex
        asks = TemporalEngine(temporal_options(temporal, task_queue, runs_turns=False))
        works = [TemporalEngine(temporal_options(temporal, task_queue)) for _ in range(2)]
    with replicas(postgres_url, 3) as stores:
        refused, result, ran = await decided_after_an_upgrade(stores, asks, works)

    assert refused.kind == "conflict"
    assert "not what it was when this turn began" in str(refused)
    assert (result.status, result.text) == ("completed", "not five")
    assert "call.started" not in ran
    assert ran.count("approval.requested") == 1


@pytest.mark.parametrize("options", [{"max_turns": 0}, {"poll_seconds": 0.0}])
def test_an_engine_that_could_do_nothing_is_refused(options: Json) -> None:
    """What it would wait for never comes."""
    with pytest.raises(UsageError):
        PostgresEngine(**options)
