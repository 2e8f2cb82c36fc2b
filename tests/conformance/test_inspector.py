"""The MCP Inspector lists and calls, over stdio and HTTP, in every era of the protocol."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import serving
from tests.conformance.inspector import ERAS, TOOL_FAILED, Era, Inspector, over_http, over_stdio
from tests.node.peers import needs_node
from tests.transports.http.served_runtime import CALLERS, OWNERS, TOKENS
from tests.transports.shop import TOOLS, shop
from toolcrib.runtime.runtime import Runtime
from toolcrib.serving.tokens import owner_token
from toolcrib.transports.http.server import HttpServer

pytestmark = needs_node
NAMES = [each.name for each in TOOLS]
GREETINGS = """
from dataclasses import dataclass
from toolcrib import tool

@dataclass
class Greeting:
    words: str

@tool
def greet(name: str) -> Greeting:
    'Greet somebody.'
    return Greeting(f"Hello, {name}!")
"""


def stdio(home: Path) -> Inspector:
    toolcrib = Path(sys.executable).with_name("toolcrib")
    return over_stdio(home, str(toolcrib), ["mcp", "--host-tools-module", "tests.transports.shop"])


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[Runtime, str]]:
    async with shop() as runtime, HttpServer(runtime, port=0, tokens=TOKENS) as server:
        yield runtime, f"{server.url}/mcp"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def lists_and_calls(inspector: Inspector, era: Era) -> None:
    listed = await inspector.run(era, "tools/list", "--strict")
    called = await inspector.call(era, "greet", name="Ada")

    assert (listed.status, [each["name"] for each in listed.result["tools"]]) == (0, NAMES)
    assert listed.findings == []
    assert (called.status, called.result["content"]) == (
        0,
        [{"type": "text", "text": "Hello, Ada!"}],
    )


@pytest.mark.parametrize("era", ERAS)
async def test_it_lists_and_calls_over_stdio(era: Era, tmp_path: Path) -> None:
    """`toolcrib mcp` is a server to a real client in every era, and its schemas are portable."""
    await lists_and_calls(stdio(tmp_path), era)


@pytest.mark.parametrize("era", ERAS)
async def test_it_lists_and_calls_over_http(era: Era, tmp_path: Path) -> None:
    """So is `/mcp` of a served runtime, for whoever has a token."""
    async with served() as (_, url):
        await lists_and_calls(over_http(tmp_path, url, **bearer(OWNERS)), era)


async def test_it_calls_what_the_command_serves(tmp_path: Path) -> None:
    """`toolcrib serve --http` speaks MCP beside REST, for the token of its file. The schema of a
    typed result is portable too, and what is structured is what the schema says.
    """
    (tmp_path / "greetings.py").write_text(GREETINGS)
    async with serving("--host-tools-module", "greetings", cwd=tmp_path) as served:
        token = owner_token(tmp_path / "token")
        inspector = over_http(tmp_path, f"{served.url}/mcp", **bearer(token))
        listed = await inspector.run("auto", "tools/list", "--strict")
        called = await inspector.call("auto", "greet", name="Ada")

    [tool] = listed.result["tools"]
    assert (listed.status, listed.findings) == (0, [])
    assert tool["outputSchema"]["required"] == ["words"]
    assert (called.status, called.result["structuredContent"]) == (0, {"words": "Hello, Ada!"})


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_failed_call_is_told_as_one(era: Era, tmp_path: Path) -> None:
    """A tool that fails, and one that policy denies, are results that say so."""
    async with served() as (_, url):
        inspector = over_http(tmp_path, url, **bearer(OWNERS))
        failed = await inspector.call(era, "broken")
        denied = await inspector.call(era, "forbidden", name="Ada")

    assert (failed.status, failed.result["isError"]) == (TOOL_FAILED, True)
    assert "the till is jammed" in failed.result["content"][0]["text"]
    assert (denied.status, denied.result["isError"]) == (TOOL_FAILED, True)
    assert "not in this shop" in denied.result["content"][0]["text"]


@pytest.mark.parametrize("headers", [{}, bearer("somebody-elses-token")])
async def test_nobody_comes_in_without_a_token(headers: dict[str, str], tmp_path: Path) -> None:
    """Neither era has a way round the token."""
    async with served() as (_, url):
        inspector = over_http(tmp_path, url, **headers)
        ended = [await inspector.run(era, "tools/list") for era in ("legacy", "modern")]

    assert [each.status for each in ended if each.status == 0] == []
    assert [each.stdout for each in ended if "greet" in each.stdout] == []


async def test_a_retry_takes_up_the_call_that_was_approved(tmp_path: Path) -> None:
    """A client that may not approve is told what its call waits for; once somebody else has
    approved it, the same call again gives its result.
    """
    async with served() as (runtime, url):
        headers = {**bearer(CALLERS), "toolcrib-session": "caller:inspected"}
        inspector = over_http(tmp_path, url, **headers)
        waiting = await inspector.call("legacy", "guarded", name="Ada")
        [pending] = (await runtime.ask("approvals.list", {})).approvals
        asked = {"approval_id": pending.approval_id, "decision": "approve"}
        await runtime.ask("approvals.decide", asked)
        done = await inspector.call("legacy", "guarded", name="Ada")

    assert waiting.status == TOOL_FAILED
    assert pending.approval_id in waiting.result["content"][0]["text"]
    assert (done.status, done.result["content"][0]["text"]) == (0, "Hello, Ada!")


async def test_a_call_that_waits_is_a_task_where_the_client_has_tasks(tmp_path: Path) -> None:
    """The Inspector declares the tasks extension: it asks for its task until somebody has decided,
    and gets the result without calling again.
    """
    async with served() as (runtime, url):
        headers = {**bearer(CALLERS), "toolcrib-session": "caller:inspected"}
        inspector = over_http(tmp_path, url, **headers)
        calling = asyncio.ensure_future(inspector.call("modern", "guarded", name="Ada"))
        pending: list[Any] = []
        while not pending:
            await asyncio.sleep(0.02)
            pending = (await runtime.list_approvals()).approvals
        await runtime.decide(pending[0].approval_id, "approve")
        done = await calling

    assert (done.status, done.result["content"][0]["text"]) == (0, "Hello, Ada!")
