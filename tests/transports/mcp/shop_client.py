"""A client of the shop by MCP, for the equality suite. What MCP does not carry, events and the
decisions of somebody else, it has over REST from the same runtime.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import httpx2
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents

from tests.transports.http_driver import OverHttp
from tests.transports.suite import Json


class OverMcp(OverHttp):
    """Calls by MCP."""

    def __init__(self, mcp: Client, client: httpx2.AsyncClient) -> None:
        super().__init__(client)
        self._mcp = mcp
        self._running: dict[str, asyncio.Task[CallToolResult]] = {}
        self._cancelled: set[str] = set()

    async def call(self, name: str, arguments: Json, *, call_id: str | None = None) -> Json:
        meta: Any = None if call_id is None else {"toolcrib/call_id": call_id}
        asking = asyncio.ensure_future(self._mcp.call_tool(name, arguments, meta=meta))
        if call_id is not None:
            self._running[call_id] = asking
        try:
            return await self._told(name, await asking)
        except MCPError as error:
            return _facts(name, error.data["toolcrib/call"], None)
        except asyncio.CancelledError:
            if call_id not in self._cancelled:
                raise
            # Who cancels a request gets no answer to it; the ledger says what became of the call.
            return await self._recorded(name, call_id)

    async def artifact(self, artifact_id: str) -> str:
        """Read it as a resource."""
        resource = await self._mcp.read_resource(f"toolcrib://artifacts/{artifact_id}")
        (whole,) = resource.contents
        assert isinstance(whole, TextResourceContents)
        return whole.text

    async def cancel(self, call_id: str) -> None:
        self._cancelled.add(call_id)
        self._running[call_id].cancel()

    async def _told(self, name: str, result: CallToolResult) -> Json:
        text = result.content[0]
        assert isinstance(text, TextContent)
        facts = (result.meta or {})["toolcrib/call"]
        value: Any = facts.get("value")
        if facts["status"] == "completed":
            value = result.structured_content or text.text
        for link in result.content[1:]:
            assert link.type == "resource_link"
            (whole,) = (await self._mcp.read_resource(link.uri)).contents
            assert isinstance(whole, TextResourceContents)
            value = whole.text
        assert result.is_error == (facts["status"] != "completed")
        return _facts(name, {"text": text.text, **facts}, value)

    async def _recorded(self, name: str, call_id: str | None) -> Json:
        async with aclosing(self.events()) as events:
            async for event in events:
                if event["kind"] == "tool.invoked" and event["data"]["call_id"] == call_id:
                    failure = event["data"]["failure"]
                    facts = {"call_id": call_id, "status": "failed", "failure": failure}
                    return _facts(name, facts, None)
        raise AssertionError("the events ended")


def _facts(name: str, facts: Json, value: Any) -> Json:
    failure = facts.get("failure")
    return {
        "call_id": facts["call_id"],
        "tool": name,
        "status": facts["status"],
        "text": facts["text"] if "text" in facts else failure["message"],
        "value": value,
        "failure": failure,
        "approval_id": facts.get("approval_id"),
        "artifact_id": facts.get("artifact_id"),
        "metadata": facts.get("metadata", {}),
    }
