"""The gateway from end to end: a client, toolcrib as a process, and the server behind it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.helpers.patience import PATIENCE

pytestmark = pytest.mark.slow

GATEWAY = Path(__file__).parents[2] / "examples" / "gateway"
COMMANDS = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"}


def test_the_example_runs_as_its_page_says() -> None:
    """An MCP client calls through `toolcrib mcp`: allowed, denied, and approved elsewhere."""
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=GATEWAY,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("3. Somebody says yes")
    assert "notes_search, notes_add, notes_delete_all" in before
    assert "notes_search: ok: The saw is at the shop." in before
    assert "notes_delete_all: error: Notes are kept." in before
    assert "notes_add: error: Waiting for approval apr_" in before
    assert "notes_add: ok: There are 3 notes now." in after


class Lines:
    """A client that speaks JSON-RPC with a process, one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._count = 0

    async def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        asked = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        cast("asyncio.StreamWriter", self._process.stdin).write(json.dumps(asked).encode() + b"\n")
        while True:
            line = await cast("asyncio.StreamReader", self._process.stdout).readline()
            answer = json.loads(line)
            if answer.get("id") == self._count:
                assert "result" in answer, answer
                return answer["result"]


@asynccontextmanager
async def served() -> AsyncGenerator[Lines]:
    options = ("--host-tools", "gateway.yaml", "--policy", "policy.yaml")
    process = await asyncio.create_subprocess_exec(
        str(COMMANDS / "toolcrib"),
        *("serve", "--stdio", *options),
        cwd=GATEWAY,
        env=ENVIRONMENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            yield Lines(process)
    finally:
        cast("asyncio.StreamWriter", process.stdin).close()
        await process.communicate()
    assert process.returncode == 0


async def test_the_same_over_json_rpc() -> None:
    """A client of the stdio transport gets the same tools, decisions and records."""
    async with served() as client:
        session = (await client.ask("session.create"))["session_id"]

        async def call(name: str, **arguments: Any) -> Any:
            return await client.ask(
                "tools.call", session_id=session, name=name, arguments=arguments
            )

        assert (await call("notes_search", word="saw"))["text"] == "The saw is at the shop."
        assert (await call("notes_delete_all"))["failure"]["kind"] == "not_permitted"
        waiting = await call("notes_add", text="Oil the saw.")
        await client.ask("approvals.decide", approval_id=waiting["approval_id"], decision="approve")
        done = await client.ask(
            "tools.call", session_id=session, name="notes_add", call_id=waiting["call_id"]
        )
        assert done["text"] == "There are 3 notes now."
        told = (await client.ask("events.list", session_id=session))["events"]
        invoked = [each["data"]["tool"] for each in told if each["kind"] == "tool.invoked"]
        assert {each["source"] for each in invoked} == {"mcp:notes"}
