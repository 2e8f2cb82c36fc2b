"""The block of docs/engines.md for Procrastinate, on a real PostgreSQL; the runtime is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import procrastinate
import pytest

from tests.docs_runner import read_all_blocks
from tests.engines.shared_turns import PlayedRuntime, PlayedStore
from tests.helpers.patience import PATIENCE
from toolcrib.engines import QueueEngine

pytestmark = pytest.mark.wire

PAGE: Final = Path(__file__).parents[2] / "docs" / "engines.md"


def page_names() -> dict[str, Any]:
    """What the block of the page defines."""
    block = next(block for block in read_all_blocks(PAGE) if "procrastinate" in block.code)
    names: dict[str, Any] = {}
    exec(compile(block.code, f"{PAGE.name}:{block.line}", "exec"), names)
    return names


@pytest.fixture
async def app(postgres_url: str) -> AsyncGenerator[procrastinate.App]:
    """An app whose tables are in an empty database."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=postgres_url))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield app


async def test_a_due_turn_is_advanced_by_a_worker_of_the_queue(app: procrastinate.App) -> None:
    """From the store to the queue to `advance`, with the code of the page as it is."""
    runtime = PlayedRuntime(PlayedStore("s_1"))
    engine: QueueEngine = page_names()["turns_on"](app, [runtime])
    await engine.start(runtime.as_runtime)
    worker = asyncio.create_task(
        app.run_worker_async(
            queues=["turns"], install_signal_handlers=False, fetch_job_polling_interval=0.1
        )
    )
    try:
        assert await asyncio.wait_for(runtime.advanced.get(), PATIENCE) == "s_1"
        await engine.wake("s_2")
        assert await asyncio.wait_for(runtime.advanced.get(), PATIENCE) == "s_2"
    finally:
        await engine.close()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_a_session_is_on_the_queue_once(app: procrastinate.App) -> None:
    """What is sent twice before a worker comes is one job: the queue does not grow while it
    waits.
    """
    block = page_names()

    def given(send: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        """The function that the page gives to the engine."""
        return send

    block["QueueEngine"] = given
    send = block["turns_on"](app, [])

    for _ in range(3):
        await send("s_1")

    jobs = await app.job_manager.list_jobs_async()
    assert [job.task_kwargs for job in jobs] == [{"session_id": "s_1"}]
