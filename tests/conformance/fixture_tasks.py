"""The fixture's tools that become tasks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ElicitResult, InputRequiredResult

from tests.conformance.fixture_client import form, here
from tests.conformance.fixture_tools import NOTHING
from toolcrib.host_tools import HostToolDefinition, ToolContext

TASK_AFTER_SECONDS = 0.2
LONG_SECONDS = 0.6
"""Long enough for a task."""
SLOW: dict[str, Any] = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}},
}
NAMED: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
FILE: dict[str, Any] = {"type": "object", "properties": {"filename": {"type": "string"}}}
USER_NAME = form("What is your name?", name={"type": "string"})


@dataclass
class Confirmation:
    confirm: bool


@dataclass
class Guest:
    name: str
    confirm: bool


async def greet(input: dict[str, Any], context: ToolContext) -> str:
    return f"Hello, {input['name']}!"


async def slow_compute(input: dict[str, Any], context: ToolContext) -> str:
    await asyncio.sleep(input.get("seconds", 0))
    return f"{input.get('label')} is done."


async def failing_job(input: dict[str, Any], context: ToolContext) -> str:
    await asyncio.sleep(LONG_SECONDS)
    raise RuntimeError("This job fails.")


async def protocol_error_job(input: dict[str, Any], context: ToolContext) -> str:
    await asyncio.sleep(LONG_SECONDS)
    here().reply = error = MCPError(INTERNAL_ERROR, "This job panics.")
    raise error


async def confirm_delete(input: dict[str, Any], context: ToolContext) -> str:
    answer = await context.ask(f"Delete {input['filename']}?", Confirmation)
    return "Deleted." if answer.confirm else "Not deleted."


async def multi_input(input: dict[str, Any], context: ToolContext) -> str:
    guests = await asyncio.gather(
        context.ask("Who is the first guest?", Guest),
        context.ask("Who is the second guest?", Guest),
    )
    return " and ".join(guest.name for guest in guests)


async def tool_with_task(input: dict[str, Any], context: ToolContext) -> str:
    answer = (here().params.input_responses or {}).get("user_name")
    if not isinstance(answer, ElicitResult):
        here().answer(InputRequiredResult(input_requests={"user_name": USER_NAME}))
        return "The client was asked."
    await asyncio.sleep(LONG_SECONDS)
    return f"Hello, {(answer.content or {}).get('name')}!"


def _tool(name: str, handler: Any, parameters: dict[str, Any] = NOTHING, *requires: str) -> Any:
    return HostToolDefinition(name, f"The fixture {name}.", parameters, handler, requires=requires)


TASK_TOOLS = (
    _tool("greet", greet, NAMED),
    _tool("slow_compute", slow_compute, SLOW),
    _tool("failing_job", failing_job, NOTHING, "tasks"),
    _tool("protocol_error_job", protocol_error_job),
    _tool("confirm_delete", confirm_delete, FILE),
    _tool("multi_input", multi_input),
    _tool("test_tool_with_task", tool_with_task, NOTHING, "tasks"),
)
