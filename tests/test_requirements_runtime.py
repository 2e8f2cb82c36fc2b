"""Host-defined tools as their document asks for them, in a runtime: its programs, its command line
and its tests, names changed. Where it leaves the model out, a script stands at the provider's edge.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.docs_runner import read_blocks
from tests.helpers.child_process import PYTHON_PATH
from tests.test_docs import PAGES
from toolcrib import RuntimeConfig, create_runtime
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext, ToolResult
from toolcrib.runtime.runtime import Runtime
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.transports.http.server import HttpServer

ROOT = Path(__file__).parents[1]
TOOLCRIB = (sys.executable, "-c", "from toolcrib.cli import main; main()")
SECRET = "document-token-0123456789"

MODULE = """
from toolcrib.host_tools import HostToolDefinition, ToolResult

print("what a module prints is not for the client")


async def shelf_of(input, context):
    return ToolResult(success=True, output={"part": input["part"], "shop": context.session_id})


async def setup_host_tools(registry):
    await registry.register(
        HostToolDefinition(
            name="shelf_of",
            description="Finds the shelf of a part",
            parameters={
                "type": "object",
                "properties": {"part": {"type": "string"}},
                "required": ["part"],
            },
            handler=shelf_of,
        )
    )
"""

FILE = """
tools:
  - name: stock_query
    description: "Ask the shop's books"
    module: workshop.books
    function: query_handler
    parameters:
      type: object
      properties:
        question:
          type: string
          description: "What to look for"
      required: [question]
"""

BOOKS = """
async def query_handler(input, context):
    return {"asked": input["question"]}
"""


async def polish(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    return ToolResult(success=True, output=f"{input['piece']} shines in {context.cwd}")


async def registry_with(
    name: str = "polish",
    handler: Any = polish,
    parameters: dict[str, Any] | None = None,
    **rules: Any,
) -> HostToolRegistry:
    piece = {"type": "object", "properties": {"piece": {"type": "string"}}, "required": ["piece"]}
    registry = HostToolRegistry()
    await registry.register(
        HostToolDefinition(
            name=name,
            description="Takes care of a piece",
            parameters=parameters or piece,
            handler=handler,
            **rules,
        )
    )
    return registry


async def invoke(runtime: Runtime, name: str, arguments: dict[str, Any]) -> Any:
    session = await runtime.ask("session.create", {"cwd": "/shop"})
    asked = {"session_id": session.session_id, "name": name, "arguments": arguments}
    return await runtime.ask("tools.call", asked)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the document's file, and with its module."""
    (tmp_path / "workshop").mkdir()
    (tmp_path / "workshop" / "__init__.py").write_text("")
    (tmp_path / "workshop" / "books.py").write_text(BOOKS)
    (tmp_path / "workshop" / "tools.py").write_text(MODULE)
    (tmp_path / "tools.yaml").write_text(FILE)
    return tmp_path


def over_stdio(project: Path, *options: str, asks: list[dict[str, Any]]) -> list[Any]:
    """What a process of the command line answers, and nothing else on its stdout."""
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, **each}) for n, each in enumerate(asks)]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from toolcrib.cli import main; main()",
            "serve",
            "--stdio",
            *options,
        ],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        text=True,
    )
    answers: list[Any] = []
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        # One after the other: what needs the session waits until it is there.
        for line in lines:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline())["result"])
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    return answers


@pytest.mark.wire
def test_both_options_of_the_command_line(project: Path) -> None:
    """R29, R30, R31: tools of a file and of a module, together, without anything on stdout that is
    not the protocol's.
    """
    options = ("--host-tools", "./tools.yaml", "--host-tools-module", "workshop.tools")
    call = {"session_id": "one"}
    _, listed, first, second = over_stdio(
        project,
        *options,
        asks=[
            {"method": "session.create", "params": call},
            {"method": "tools.list", "params": call},
            {
                "method": "tools.call",
                "params": {**call, "name": "stock_query", "arguments": {"question": "saws"}},
            },
            {
                "method": "tools.call",
                "params": {**call, "name": "shelf_of", "arguments": {"part": "bolt"}},
            },
        ],
    )

    assert [each["name"] for each in listed["tools"]] == ["stock_query", "shelf_of"]
    assert first["value"] == {"asked": "saws"}
    assert second["value"] == {"part": "bolt", "shop": "one"}


async def test_the_programmatic_api() -> None:
    """R34, R37, R40: a registry is given to a runtime, and its tool is there in a session and can
    be called without a model.
    """
    config = RuntimeConfig(host_tool_registry=await registry_with())
    runtime = create_runtime(config)

    async with runtime:
        result = await invoke(runtime, "polish", {"piece": "a spoon"})

    assert (result.status, result.value) == ("completed", "a spoon shines in /shop")


async def test_a_tool_is_available_in_a_session() -> None:
    """R23, R37: it is mounted when the session is made, with all that a client may show of it."""
    registry = await registry_with(category="care", version="1.2.0", requires_approval=True)
    async with create_runtime(RuntimeConfig(host_tool_registry=registry)) as runtime:
        session = await runtime.ask("session.create")
        listed = await runtime.ask("tools.list", {"session_id": session.session_id})

    (told,) = listed.tools
    assert (told.name, told.source, told.scope) == ("polish", "host", "global")
    assert (told.version, told.category, told.requires_approval) == ("1.2.0", "care", True)
    assert told.parameters["required"] == ["piece"]


@asynccontextmanager
async def over_http(runtime: Runtime) -> AsyncGenerator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with (
        HttpServer(runtime, port=0, tokens=Tokens([Token(SECRET)])) as server,
        httpx2.AsyncClient(base_url=server.url, headers=headers) as client,
    ):
        yield client


@pytest.mark.wire
async def test_one_tool_over_stdio_and_http(project: Path) -> None:
    """R36: the same call over a process's pipes and over HTTP comes to the same."""
    call: dict[str, Any] = {"session_id": "one", "name": "shelf_of", "arguments": {"part": "nut"}}
    _, by_pipe = over_stdio(
        project,
        *("--host-tools-module", "workshop.tools"),
        asks=[
            {"method": "session.create", "params": {"session_id": "one"}},
            {"method": "tools.call", "params": call},
        ],
    )
    registry = HostToolRegistry()
    space: dict[str, Any] = {}
    exec(compile(MODULE, "workshop", "exec"), space)
    await space["setup_host_tools"](registry)
    async with (
        create_runtime(RuntimeConfig(host_tool_registry=registry)) as runtime,
        over_http(runtime) as client,
    ):
        await client.post("/v1/sessions", json={"session_id": "one"})
        path = "/v1/sessions/one/tools/shelf_of/call"
        by_http = (await client.post(path, json={"arguments": call["arguments"]})).json()

    del by_pipe["call_id"], by_http["call_id"]
    assert by_pipe == by_http
    assert by_http["value"] == {"part": "nut", "shop": "one"}


async def test_a_prompt_reaches_the_hosts_own_state() -> None:
    """R17, R22, R40: a model that is asked for it calls a tool that changes what the host has, and
    reads what it gave.
    """
    rung: list[str] = []

    async def ring(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
        rung.append(context.session_id)
        return ToolResult(success=True, output="rung")

    anything = {"type": "object"}
    registry = await registry_with(name="ring_bell", parameters=anything, handler=ring)
    model = ScriptedOpenAI([calls("ring_bell", {})], [says("I rang it.")])
    adapter = OpenAIAdapter(model="any", client=model.client())
    config = RuntimeConfig(host_tool_registry=registry, adapter=adapter)
    async with create_runtime(config) as runtime:
        await runtime.ask("session.create", {"session_id": "shop"})
        asked = {"session_id": "shop", "text": "Ring the bell"}
        answer = await runtime.ask("prompt.send", asked)

    assert (answer.text, rung) == ("I rang it.", ["shop"])
    assert model.requests[1]["input"][-1]["output"] == "rung"


async def test_an_error_and_a_timeout_reach_the_caller_typed() -> None:
    """R18, R19: an exception becomes a result with its type, and a tool out of time is stopped."""

    async def fail(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
        raise LookupError("no such drawer")

    async def stall(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
        await asyncio.Event().wait()
        raise AssertionError

    anything = {"type": "object"}
    registry = await registry_with(parameters=anything, handler=fail)
    registry.add(HostToolDefinition("stall", "Stalls", anything, stall, timeout=0.01))
    async with create_runtime(RuntimeConfig(host_tool_registry=registry)) as runtime:
        failed = await invoke(runtime, "polish", {})
        late = await invoke(runtime, "stall", {})

    assert (failed.failure.kind, failed.failure.error_type) == ("tool_error", "LookupError")
    assert "no such drawer" in failed.text
    assert late.failure.kind == "timeout"
    assert "0.01" in late.text


def test_pages_for_hosts_are_run() -> None:
    """R35: the pages for hosts have programs, and they are among those that run."""
    for page in ("host-tools.md", "runtime.md", "transports.md"):
        assert ROOT / "docs" / page in PAGES
        assert read_blocks(ROOT / "docs" / page), page


def test_every_requirement_on_hosts_and_transports_is_named() -> None:
    """R1 to R51: each is named by a test besides this one."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    named = {each for path in files for each in re.findall(r"\bR(\d{1,2})\b", path.read_text())}
    here = {"35"}

    assert {str(number) for number in range(1, 52)} - named - here == set()
