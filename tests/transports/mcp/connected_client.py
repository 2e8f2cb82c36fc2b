"""A runtime with a few tools, an MCP server of it, and a real client of the SDK, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, ElicitResult, TextContent

from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.transports.mcp import McpOptions, McpServer

HANDSHAKE = "legacy"
STATELESS = "2026-07-28"
ERAS = (HANDSHAKE, STATELESS)
CALLER = Principal("ada", frozenset({"caller"}), transport="mcp")
APPROVER = Principal(
    "ada", frozenset({"caller", "approver"}), transport="mcp", may_approve_own=True
)

TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass
class Work:
    """What the tools did, and a way to hold one back."""

    done: list[str] = field(default_factory=list[str])
    written: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, input: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        self.done.append(input["text"])
        self.written.set()
        return {"written": input["text"]}

    async def hold(self, input: dict[str, Any], context: ToolContext) -> str:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return "never"

    async def count(self, input: dict[str, Any], context: ToolContext) -> str:
        for current, total in ((1, 3), (0.5, 3), (3, 3)):
            context.progress(current, total, f"at {current}")
            context.output("beside the point")
        return "counted"


def registry_of(work: Work, *more: Any) -> HostToolRegistry:
    registry = HostToolRegistry()
    for name, handler, asks in (
        ("write", work.write, False),
        ("careful", work.write, True),
        ("hold", work.hold, False),
        ("count", work.count, False),
    ):
        registry.add(
            HostToolDefinition(name, f"The tool {name}.", TEXT, handler, requires_approval=asks)
        )
    for tool in more:
        registry.add(tool)
    return registry


@dataclass(frozen=True)
class Bench:
    """What a test talks to."""

    runtime: Runtime
    server: McpServer
    client: Client
    work: Work

    async def call(self, name: str, text: str = "hello", **more: Any) -> CallToolResult:
        return await self.client.call_tool(name, {"text": text}, **more)

    async def decide(self, approval_id: str, decision: str, **more: Any) -> None:
        asked = {"approval_id": approval_id, "decision": decision, **more}
        await self.runtime.ask("approvals.decide", asked)

    async def inbox(self, *, is_all: bool = False) -> list[Any]:
        return (await self.runtime.ask("approvals.list", {"is_all": is_all})).approvals


@asynccontextmanager
async def connected(
    era: str,
    *tools: Any,
    who: Principal = CALLER,
    options: McpOptions | None = None,
    config: dict[str, Any] | None = None,
    **client: Any,
) -> AsyncGenerator[Bench]:
    """A client of a fresh server."""
    work = Work()
    asked = RuntimeConfig(host_tool_registry=registry_of(work, *tools), **(config or {}))
    async with create_runtime(asked) as runtime:
        server = McpServer(runtime, options, who=who)
        async with Client(server.sdk, mode=era, **client) as connection:
            yield Bench(runtime, server, connection, work)


def text_of(result: CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, TextContent)
    return content.text


def facts_of(result: CallToolResult) -> dict[str, Any]:
    assert result.meta is not None
    return result.meta["toolcrib/call"]


class Person:
    """Somebody at the client, who answers forms with what they were told to."""

    def __init__(self, *answers: ElicitResult) -> None:
        self._answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0)


def says(decision: str, **more: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"decision": decision, **more})
