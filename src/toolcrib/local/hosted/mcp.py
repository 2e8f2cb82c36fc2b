"""`mcp`: the tools of a remote server, with approvals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.local.brain import Offer
from toolcrib.local.hosted.mcp_terms import McpTerms, read_terms
from toolcrib.local.hosted.tool import Answer, Paused, Resumed
from toolcrib.local.ids import new_id

if TYPE_CHECKING:
    from toolcrib.local.hosted.tool import HostedTool, Opened
    from toolcrib.local.responses.request import CreateResponse
    from toolcrib.local.responses.run import Run
    from toolcrib.mcp_client.connection import Connection
    from toolcrib.tools.redaction import Scrubber

MOST_OUTPUT: Final = 100_000
LIST_SECONDS: Final = 30.0
CALL_SECONDS: Final = 600.0


class Mcp:
    """Connects to MCP servers by their address."""

    types = frozenset({"mcp"})

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`."""
        read_terms(config, param)

    async def open(
        self, config: Mapping[str, Any], asked: CreateResponse, opened: Opened
    ) -> HostedTool:
        """The server of one request. Its tools are listed once in a conversation."""
        remote = _Remote(read_terms(config, "tools"), opened.items)
        await remote.list(opened.run)
        return remote


class _Remote:
    def __init__(self, terms: McpTerms, items: Sequence[Mapping[str, Any]]) -> None:
        self._terms = terms
        self._items = [item for item in items if item.get("server_label") == terms.label]
        self._responses = {
            item.get("approval_request_id"): item
            for item in items
            if item.get("type") == "mcp_approval_response"
        }
        self._tools: list[Mapping[str, Any]] = []
        self._hidden = _hidden(terms)
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None

    @property
    def offers(self) -> Sequence[Offer]:
        """The server's tools, each under the server's label."""
        return [
            Offer(
                f"{self._terms.label}__{tool['name']}",
                str(tool.get("description") or ""),
                cast(dict[str, Any], tool["input_schema"]),
            )
            for tool in self._tools
        ]

    async def close(self) -> None:
        """End the connection."""
        await self._stack.aclose()

    async def list(self, run: Run) -> None:
        """Take the tools that were listed before, or ask the server and tell of it."""
        for item in self._items:
            if item.get("type") == "mcp_list_tools" and not item.get("error"):
                self._tools = [t for t in item["tools"] if self._terms.allows(t)]
                return
        base: dict[str, Any] = {"id": new_id("mcpl"), "type": "mcp_list_tools"}
        index = run.add({**base, "server_label": self._terms.label, "tools": []})
        run.tell("mcp_list_tools.in_progress", index)
        try:
            async with asyncio.timeout(LIST_SECONDS):
                connection = await self._connected()
                listed = [_told_tool(tool) for tool in await connection.tools()]
        except Exception as error:
            run.tell("mcp_list_tools.failed", index)
            run.done(index, error=self._reason(error))
            return
        self._tools = [tool for tool in listed if self._terms.allows(tool)]
        run.tell("mcp_list_tools.completed", index)
        run.done(index, tools=list(self._tools))

    async def resume(self, run: Run) -> Sequence[Resumed]:
        """Run what a person has approved since. What was denied is in the conversation."""
        done = {item.get("approval_request_id") for item in self._items}
        resumed: list[Resumed] = []
        for item in self._items:
            if item.get("type") != "mcp_approval_request" or item["id"] in done:
                continue
            response = self._responses.get(item["id"])
            if response is not None and response.get("approve") is True:
                answer = await self._call(item["name"], item["arguments"], run, item["id"])
                shown = f"{self._terms.label}__{item['name']}"
                resumed.append(Resumed(shown, item["arguments"], answer))
        return resumed

    async def run(self, name: str, arguments: Mapping[str, Any], run: Run) -> Answer | Paused:
        """Call a tool, or ask for approval first."""
        tool, text = name.removeprefix(f"{self._terms.label}__"), json.dumps(dict(arguments))
        if self._terms.needs_approval(tool):
            base: dict[str, Any] = {"id": new_id("mcpr"), "type": "mcp_approval_request"}
            told = {"server_label": self._terms.label, "name": tool, "arguments": text}
            run.done(run.add({**base, **told}))
            return Paused()
        return await self._call(tool, text, run, None)

    async def _call(self, tool: str, arguments: str, run: Run, approval_id: str | None) -> Answer:
        base: dict[str, Any] = {
            "id": new_id("mcp"),
            "type": "mcp_call",
            "status": "in_progress",
            "approval_request_id": approval_id,
            "server_label": self._terms.label,
            "name": tool,
        }
        index = run.add({**base, "arguments": "", "output": None, "error": None})
        run.tell("mcp_call.in_progress", index)
        run.tell("mcp_call_arguments.delta", index, delta=arguments)
        run.tell("mcp_call_arguments.done", index, arguments=arguments)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                connection = await self._connected()
                answer = await connection.call(tool, json.loads(arguments), _no_progress)
        except Exception as error:
            reason = self._reason(error)
            fault = {"type": "mcp_protocol_error", "code": _code(error), "message": reason}
            run.tell("mcp_call.failed", index)
            run.done(index, arguments=arguments, status="failed", error=fault)
            return Answer(base["id"], f"The call failed: {reason}")
        return self._ended(index, base["id"], arguments, answer, run)

    def _ended(self, index: int, item_id: str, arguments: str, answer: Any, run: Run) -> Answer:
        from toolcrib.mcp_client.answers import result_of, without_secrets

        told = result_of(answer, run.response["output"][index]["name"], MOST_OUTPUT)
        result = without_secrets(told, self._hidden)
        output = result.message or _as_text(result.value)
        if answer.is_error:
            content = [{"type": "text", "text": output}]
            fault = {"type": "mcp_tool_execution_error", "content": content}
            run.tell("mcp_call.failed", index)
            run.done(index, arguments=arguments, status="failed", error=fault)
            return Answer(item_id, output)
        run.tell("mcp_call.completed", index)
        run.done(index, arguments=arguments, status="completed", output=output)
        return Answer(item_id, output, _value(result.value))

    async def _connected(self) -> Connection:
        from toolcrib.mcp_client.connection import connected
        from toolcrib.mcp_client.reaching import Address

        if self._connection is None:
            address = Address(self._terms.url, self._terms.headers, self._hidden)
            self._connection = await self._stack.enter_async_context(connected(address))
        return self._connection

    def _reason(self, error: BaseException) -> str:
        from toolcrib.mcp_client.reaching import presentable
        from toolcrib.mcp_client.reasons import reason_of

        if isinstance(error, TimeoutError):
            return "the server took too long"
        return presentable(reason_of(error), self._hidden)


def _told_tool(tool: Any) -> dict[str, Any]:
    annotations = tool.annotations
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.input_schema),
        "annotations": None
        if annotations is None
        else annotations.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


async def _no_progress(progress: float, total: float | None, message: str | None) -> None:
    """The Responses API has no event for it."""


def _hidden(terms: McpTerms) -> Scrubber:
    """Takes out of whatever a server says what it was given to keep to itself."""
    from toolcrib.tools.mcp.credentials import SHORTEST_SECRET, secrets_in
    from toolcrib.tools.redaction import Scrubber

    given = [value for value in terms.headers.values() if len(value) >= SHORTEST_SECRET]
    return Scrubber([*secrets_in(terms.url, *given)])


def _code(error: BaseException) -> int:
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else -32000


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(value: Any) -> Any:
    """Text that is JSON is its value too."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None
