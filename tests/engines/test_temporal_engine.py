"""The engine on a real Temporal server; the runtime is played."""

from __future__ import annotations

import asyncio
import logging
import queue
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager

import pytest

from tests.engines.shared_turns import PlayedRuntime, PlayedStore
from tests.helpers.patience import PATIENCE
from tests.servers.temporal import TemporalServer, temporary_temporal
from toolcrib.engines.temporal import TemporalEngine, TemporalOptions, TemporalTls
from toolcrib.engines.temporal.connection import WORKFLOW_PREFIX, connect
from toolcrib.errors import UsageError

pytestmark = pytest.mark.wire


def options_for(server: TemporalServer, *, runs_turns: bool = True) -> TemporalOptions:
    return TemporalOptions(
        address=server.address,
        task_queue=uuid.uuid4().hex,
        heartbeat_seconds=2.0,
        poll_seconds=0.1,
        runs_turns=runs_turns,
    )


@asynccontextmanager
async def started(
    runtime: PlayedRuntime, options: TemporalOptions
) -> AsyncGenerator[TemporalEngine]:
    engine = TemporalEngine(options)
    await engine.start(runtime.as_runtime)
    try:
        yield engine
    finally:
        await engine.stop()
        await engine.close()


async def advanced(runtime: PlayedRuntime) -> str:
    return await asyncio.wait_for(runtime.advanced.get(), PATIENCE)


async def test_a_turn_that_nobody_told_of_is_advanced(temporal: TemporalServer) -> None:
    """The process that accepted it died before it could start the workflow."""
    session_id = uuid.uuid4().hex
    runtime = PlayedRuntime(PlayedStore(session_id))
    async with started(runtime, options_for(temporal)):
        assert await advanced(runtime) == session_id


async def test_a_process_that_runs_no_turns_asks_for_them(temporal: TemporalServer) -> None:
    """What a server accepts is advanced by a worker."""
    options = options_for(temporal, runs_turns=False)
    server, session_id = PlayedRuntime(PlayedStore()), uuid.uuid4().hex
    worker = PlayedRuntime(PlayedStore())
    async with started(server, options) as engine:
        await engine.wake(session_id)
        working = TemporalOptions(
            address=options.address, task_queue=options.task_queue, heartbeat_seconds=2.0
        )
        async with started(worker, working):
            assert await advanced(worker) == session_id
    assert server.advanced.empty()


async def test_a_cancelled_workflow_cancels_the_prompt(temporal: TemporalServer) -> None:
    """Through the operation that clients use, so that the ledger says who did."""
    options, session_id = options_for(temporal), uuid.uuid4().hex
    runtime = PlayedRuntime(PlayedStore())
    runtime.status = "waiting"
    async with started(runtime, options) as engine:
        await engine.wake(session_id)
        await advanced(runtime)
        client = await connect(options)
        await client.get_workflow_handle(f"{WORKFLOW_PREFIX}{session_id}").cancel()

        assert await asyncio.wait_for(runtime.cancelled.get(), PATIENCE) == session_id


class Warnings(logging.Handler):
    """The warnings of the engine, as they come."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.put(record.getMessage())

    def wait_for(self, part: str) -> None:
        while part not in self._texts.get(timeout=PATIENCE):
            pass


@pytest.fixture
def warning() -> Generator[Warnings]:
    handler, logger = Warnings(), logging.getLogger("toolcrib.engines.temporal.engine")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def own_server() -> Generator[TemporalServer]:
    """A server that a test may stop."""
    with temporary_temporal() as server:
        yield server


async def test_turns_wait_while_the_server_is_away(
    own_server: TemporalServer, warning: Warnings
) -> None:
    """A process starts without it, says so, and goes on when it is there."""
    own_server.stop()
    runtime = PlayedRuntime(PlayedStore("s_1"))
    async with started(runtime, options_for(own_server)) as engine:
        await asyncio.to_thread(warning.wait_for, "turns wait in the store")
        assert not engine.connected.is_set()
        await asyncio.to_thread(own_server.start)

        assert await advanced(runtime) == "s_1"


async def test_a_server_that_restarts_loses_no_turn(own_server: TemporalServer) -> None:
    """Neither one that came before nor one that comes meanwhile."""
    runtime = PlayedRuntime(PlayedStore("before"))
    async with started(runtime, options_for(own_server)) as engine:
        assert await advanced(runtime) == "before"
        await asyncio.to_thread(own_server.stop)
        runtime.store.due.append("meanwhile")
        await engine.wake("meanwhile")
        await asyncio.to_thread(own_server.start)

        assert await advanced(runtime) == "meanwhile"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda: TemporalOptions(address="temporal"), "HOST:PORT"),
        (lambda: TemporalOptions(namespace=" "), "namespace"),
        (lambda: TemporalOptions(max_turns=0), "max_turns"),
        (lambda: TemporalOptions(heartbeat_seconds=0), "heartbeat_seconds"),
    ],
)
def test_options_that_cannot_work_are_refused(
    options: Callable[[], TemporalOptions], message: str
) -> None:
    """With the name of the option, before anything is started."""
    with pytest.raises(UsageError, match=message):
        options()


def test_a_certificate_needs_its_key() -> None:
    """One without the other would be refused much later, by the server."""
    with pytest.raises(UsageError, match="needs its key"):
        TemporalTls(cert=b"pem")


def test_secrets_are_in_no_text_of_the_options() -> None:
    """Options are printed and logged."""
    options = TemporalOptions(api_key="hunter2", tls=TemporalTls(cert=b"c", key=b"hunter3"))

    assert "hunter" not in repr(options)
