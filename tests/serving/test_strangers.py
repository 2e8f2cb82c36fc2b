"""A server under attack by strangers in another process still answers those it knows."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.patience import PATIENCE

HERE = Path(__file__).parent
MAIN = "from toolcrib.cli import main; main()"
TOKEN = "owner-token-0123456789"
QUIET_SECONDS = 10.0
ATTACK_SECONDS = 60.0
PAUSE = 0.01
"""Between two calls of the caller: its own load must not be what is measured."""


@asynccontextmanager
async def started(*command: str, ready: str, folder: str = "") -> AsyncGenerator[str]:
    """A Python program, and the line with which it said that it is ready."""
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "TOOLCRIB_OWNER_TOKEN": TOKEN, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            line = ""
            while ready not in line:
                line = (await process.stdout.readline()).decode()
                assert line, "the program ended"
        reading = asyncio.ensure_future(process.stdout.read())
        yield line
        reading.cancel()
    finally:
        process.kill()
        await process.wait()


async def latencies(client: httpx2.AsyncClient, seconds: float) -> list[float]:
    """How long each call took, in milliseconds, for so many seconds."""
    loop = asyncio.get_running_loop()
    until, took = loop.time() + seconds, list[float]()
    while loop.time() < until:
        before = time.perf_counter()
        answer = await client.post("/v1/sessions/s/tools/echo/call", json={"arguments": {"n": 1}})
        took.append((time.perf_counter() - before) * 1000)
        assert answer.json()["status"] == "completed"
        await asyncio.sleep(PAUSE)
    return took


def p95(took: list[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


def host_tools(folder: Path) -> Path:
    (folder / "attacked_tools.py").write_text("async def echo(input, context):\n    return input\n")
    tool = {
        "name": "echo",
        "description": "Return the input",
        "parameters": {"type": "object"},
        "module": "attacked_tools",
        "function": "echo",
    }
    file = folder / "tools.yaml"
    file.write_text(json.dumps({"tools": [tool]}))
    return file


@asynccontextmanager
async def served(folder: Path, program: str = MAIN) -> AsyncGenerator[dict[str, Any]]:
    """A server in a process of its own; the options of a client of its owner."""
    arguments = ["serve", "--http", "--port", "0", "--host-tools", str(host_tools(folder))]
    async with started("-c", program, *arguments, ready="http://", folder=str(folder)) as line:
        url = next(word for word in line.split() if word.startswith("http://")).rstrip(".,")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        yield {"base_url": url, "headers": headers, "timeout": PATIENCE}


def address_of(options: dict[str, Any]) -> tuple[str, str]:
    host, port = options["base_url"].removeprefix("http://").split(":")
    return host, port


@pytest.mark.wire
async def test_few_descriptors_are_not_used_up_by_strangers(tmp_path: Path) -> None:
    """Finding 7: with 128 descriptors and 160 silent strangers, the owner's kept connection
    answers, a new one does too, and everything works again when the strangers have left.
    """
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)); {MAIN}"
    async with served(tmp_path, limited) as options, httpx2.AsyncClient(**options) as kept:
        assert (await kept.get("/v1/capabilities")).status_code == 200
        host, port = address_of(options)
        strangers = [await asyncio.open_connection(host, int(port)) for _ in range(160)]
        for _ in range(3):
            assert (await kept.get("/v1/capabilities")).status_code == 200
            async with httpx2.AsyncClient(**options) as newcomer:
                assert (await newcomer.get("/v1/capabilities")).status_code == 200
        for _, writer in strangers:
            writer.close()
        created = await kept.post("/v1/sessions", json={"session_id": "s"})
        assert created.status_code == 201


@pytest.mark.load
async def test_strangers_do_not_slow_a_caller(tmp_path: Path) -> None:
    """Finding 7: a thousand silent connections, endless headers and slow bodies for a minute. The
    95th percentile of an authenticated caller stays below twice its quiet value, and a new
    connection of that caller is answered too.
    """
    async with served(tmp_path) as options, httpx2.AsyncClient(**options) as client:
        created = await client.post("/v1/sessions", json={"session_id": "s"})
        assert created.status_code == 201, created.text
        await latencies(client, 2.0)
        quiet = await latencies(client, QUIET_SECONDS)
        strangers = str(HERE / "strangers.py"), *address_of(options)
        async with started(*strangers, ready="attacking"):
            attacked = await latencies(client, ATTACK_SECONDS)
            async with httpx2.AsyncClient(**options) as newcomer:
                assert (await newcomer.get("/v1/capabilities")).status_code == 200
        # Before and after, so that the rest of the machine weighs on both alike.
        quiet += await latencies(client, QUIET_SECONDS)
    print(f"p95 of a caller: {p95(quiet):.2f} ms quiet, {p95(attacked):.2f} ms under attack")
    assert p95(attacked) < 2 * p95(quiet)
