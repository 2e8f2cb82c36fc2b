"""`toolcrib worker` as a process: it runs the turns that others accept, and hands them over."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli import command
from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import events, model, new_session, serving
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.testing import says

pytestmark = pytest.mark.wire

THINKER = """
import asyncio

from httpx2 import AsyncClient, MockTransport
from openai import AsyncOpenAI
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI, says


async def never(request):
    await asyncio.Event().wait()


client = AsyncOpenAI(api_key="none", http_client=AsyncClient(transport=MockTransport(never)))
adapter = OpenAIAdapter(model="thinker", client=client)
quick = OpenAIAdapter(model="quick", client=ScriptedOpenAI([says("from the worker")]).client())
"""


@asynccontextmanager
async def worker(url: str, key: str, folder: Path, adapter: str) -> AsyncGenerator[command.Served]:
    (folder / "thinker.py").write_text(THINKER, "utf-8")
    arguments = ("--store", url, "--adapter", f"thinker:{adapter}")
    async with command.serving(
        *arguments, cwd=folder, command="worker", TOOLCRIB_STORE_KEY=key
    ) as started:
        yield started


async def send(runtime: Runtime, session_id: str) -> Any:
    return await runtime.ask("prompt.send", {"session_id": session_id, "text": "go"})


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.to_thread(time.sleep, 0.01)


async def test_a_worker_runs_what_another_process_accepts(
    postgres_url: str, tmp_path: Path
) -> None:
    """The prompt is accepted here, answered there; told to stop, the worker ends well."""
    key = new_key()
    with PostgresStore(postgres_url, key=key) as store:
        async with (
            serving(store=store, adapter=model(), takes_turns=False) as front,
            worker(postgres_url, key, tmp_path, "quick") as running,
        ):
            session_id = await new_session(front)
            result = await send(front, session_id)
            status = await running.stop()

    assert (result.status, result.text) == ("completed", "from the worker")
    assert "advancing turns with PostgreSQL" in "".join(running.said)
    assert status == 0


async def test_a_worker_that_is_told_to_stop_hands_its_turn_over(
    postgres_url: str, tmp_path: Path
) -> None:
    """Long before the drain time is over or its lease runs out, another replica goes on."""
    key = new_key()
    with PostgresStore(postgres_url, key=key) as store, PostgresStore(postgres_url, key=key) as two:
        async with (
            serving(store=store, adapter=model(), takes_turns=False) as front,
            worker(postgres_url, key, tmp_path, "adapter") as running,
        ):
            session_id = await new_session(front)
            sent = asyncio.ensure_future(send(front, session_id))
            await until(lambda: any(r.kind == "prompt.started" for r in store.records(session_id)))
            async with serving(store=two, adapter=model([says("taken over")])):
                before = time.time()
                running.process.send_signal(signal.SIGTERM)
                result = await sent
                opened = await events(front, session_id, "session.opened")
            status = await running.process.wait()

    assert (result.status, result.text) == ("completed", "taken over")
    assert status == 0
    # The lease runs for 10 seconds, and so long may a turn take to end.
    assert opened[-1]["at"] - before < 5
