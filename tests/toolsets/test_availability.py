"""`is_available` and `get_instruction` of a tool written as a class, wherever it runs."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from tests.runtime.host_runtime import model, new_session, serving
from tests.transports.mcp.connected_client import CALLER, HANDSHAKE, STATELESS
from toolcrib import Executor, Session
from toolcrib.host_tools import HostToolRegistry
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.testing import says
from toolcrib.toolsets import BaseTool
from toolcrib.transports.mcp import McpOptions, McpServer


class Printer(BaseTool):
    name = "print"
    description = "Print a page"

    def __init__(self) -> None:
        self.is_on = False

    def is_available(self) -> bool:
        return self.is_on

    def get_instruction(self, ctx: Any) -> str | None:
        return f"Print sparingly in {ctx.session_id}."

    async def call(self, ctx: Any, page: str) -> str:
        return f"printed {page}"


BOTH_WAYS = (False, True, False, True)


async def test_in_an_executor() -> None:
    """F9: listed, run and instructing only while it is available, asked each time."""
    printer, session = Printer(), Session()
    executor = Executor(session, [printer])
    for is_on in BOTH_WAYS:
        printer.is_on = is_on
        outcome = await executor.call("print", {"page": "a"})
        assert [each.name for each in executor.declarations()] == ["print"] * is_on
        assert outcome.ok == is_on
        text = f"Print sparingly in {session.session_id}."
        assert executor.instructions() == (text if is_on else None)


async def test_in_a_runtime_with_a_registry() -> None:
    """F9: the same in a served session, and in the instructions of its prompts."""
    printer, registry = Printer(), HostToolRegistry()
    registry.add(printer)
    adapter = model(*([says("ok")] for _ in BOTH_WAYS))
    async with serving(host_tool_registry=registry, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        for is_on in BOTH_WAYS:
            printer.is_on = is_on
            listed = await runtime.list_tools(session_id)
            assert [each.name for each in listed.tools] == ["print"] * is_on
            await runtime.send_prompt(session_id, "hello")
        events = (await runtime.list_events(session_id)).events
    starts = [each["data"] for each in events if each["kind"] == PromptStarted.kind]
    told = ["Print sparingly" in (start.get("instructions") or "") for start in starts]
    assert told == list(BOTH_WAYS)


@pytest.mark.parametrize("era", [HANDSHAKE, STATELESS])
async def test_over_mcp(era: str) -> None:
    """F9: an MCP client is told of the tool only while it is available."""
    printer, registry = Printer(), HostToolRegistry()
    registry.add(printer)
    fresh = McpOptions(list_ttl_ms=0)  # or clients of the newer era keep the list for a minute
    async with (
        serving(host_tool_registry=registry) as runtime,
        Client(McpServer(runtime, fresh, who=CALLER).sdk, mode=era) as mcp,
    ):
        for is_on in BOTH_WAYS:
            printer.is_on = is_on
            listed = await mcp.list_tools()
            assert [tool.name for tool in listed.tools] == ["print"] * is_on
