"""`tools/list`: the tools of a session in the form of MCP, cached until they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jsonschema_rs import Draft202012Validator
from mcp.server.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import INVALID_PARAMS
from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from toolcrib.runtime.messages import ListTools
from toolcrib.store.shared_store import is_shared

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import PaginatedRequestParams

    from toolcrib.host_tools.definition import HostToolDefinition
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.runtime.messages import ToolFacts, Tools
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.tools.tool import Tool
    from toolcrib.transports.mcp.client_sessions import ClientSession, ClientSessions
    from toolcrib.transports.mcp.notifications import Notifications


TOOL_META: Final = "toolcrib/tool"
"""The key in `_meta` for the identity of a tool."""


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of one session in the form of MCP, with validators for their typed results."""

    tools: list[dict[str, Any]]
    outputs: Mapping[str, Draft202012Validator]
    mounted: frozenset[str] = frozenset()
    """The tools of mounted MCP servers, whose results may be content blocks."""


def build_tool_list(tools: Tools, registry: HostToolRegistry, session_id: str) -> ToolList:
    """The tool list of a session. The registry has the result types of its tools."""
    listed: list[dict[str, Any]] = []
    outputs: dict[str, Draft202012Validator] = {}
    for facts in tools.tools:
        if facts.place == "provider":
            # Only prompts can use it.
            continue
        schema = facts.output_schema
        if schema is None:
            definition = registry.get(facts.name, session_id=session_id)
            schema = output_schema(definition.typed if definition else None)
            if schema is not None:
                outputs[facts.name] = Draft202012Validator(schema)
        # Structured content is an object in the protocol; other results have no schema.
        is_object = schema is not None and schema.get("type") == "object"
        listed.append(_tool(facts, schema if is_object else None))
    mounted = frozenset(facts.name for facts in tools.tools if is_mounted(facts.source))
    return ToolList(listed, outputs, mounted)


def is_mounted(source: str) -> bool:
    """Whether a source is a mounted MCP server."""
    return source.startswith(("mcp:", "client-mcp:"))


def output_schema(tool: Tool[Any, Any] | None) -> dict[str, Any] | None:
    """The JSON Schema of a tool's typed result; None unless it is an object."""
    if tool is None or tool.result_type is None:
        return None
    try:
        schema = TypeAdapter(tool.result_type).json_schema(mode="serialization")
    except (PydanticSchemaGenerationError, PydanticUserError):
        # A type that renders itself need not have a JSON Schema.
        return None
    return schema if schema.get("type") == "object" else None


def _tool(facts: ToolFacts, schema: dict[str, Any] | None) -> dict[str, Any]:
    if facts.presentation is not None:
        return _mounted_tool(facts, facts.presentation, schema)
    title = facts.name.replace("_", " ").replace("-", " ").strip().capitalize() or facts.name
    tool: dict[str, Any] = {
        "name": facts.name,
        "title": title,
        "description": facts.description,
        "inputSchema": {"type": "object", **facts.parameters},
        "annotations": {
            "title": title,
            "readOnlyHint": facts.is_read_only,
            "destructiveHint": not facts.is_read_only,
            "idempotentHint": facts.is_idempotent or facts.is_read_only,
        },
        "_meta": {TOOL_META: _identity(facts)},
    }
    if schema is not None:
        tool["outputSchema"] = schema
    return tool


def _mounted_tool(
    facts: ToolFacts, presentation: Mapping[str, Any], schema: dict[str, Any] | None
) -> dict[str, Any]:
    """A tool as its server presents it. Its title and hints are the server's: none is made up."""
    tool: dict[str, Any] = {
        **presentation,
        "name": facts.name,
        "description": facts.description,
        "inputSchema": {"type": "object", **facts.parameters},
        "_meta": {**(presentation.get("_meta") or {}), TOOL_META: _identity(facts)},
    }
    execution: dict[str, Any] = dict(presentation.get("execution") or {})
    if execution.get("taskSupport") in ("required", "optional"):
        # The gateway runs the task itself; a client that saw the word would ask for one here.
        tool["execution"] = {**execution, "taskSupport": "forbidden"}
    if schema is not None:
        tool["outputSchema"] = schema
    return tool


def _identity(facts: ToolFacts) -> dict[str, Any]:
    return {
        "version": facts.version,
        "digest": facts.digest,
        "category": facts.category,
        "requires_approval": facts.requires_approval,
        "deprecated": facts.deprecated,
    }


class ToolListHandler:
    """Answers `tools/list`, and tells clients when the tools change."""

    def __init__(
        self, runtime: Runtime, clients: ClientSessions, notifications: Notifications
    ) -> None:
        self._runtime = runtime
        self._clients = clients
        self._notifications = notifications
        self._publishing: set[asyncio.Future[None]] = set()
        self._schemas: dict[str, tuple[HostToolDefinition, dict[str, Any] | None]] = {}
        self._followers = 0
        self._end: Callable[[], None] | None = None

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Answer one request."""
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "tools/list has one page; leave the cursor out")
        self._clients.principal_of_request(ctx).check(("caller", "auditor"), "tools/list")
        self._notifications.subscribe(ctx)
        tool_list = await self.of(await self._clients.of(ctx))
        return {"resultType": "complete", "tools": tool_list.tools}

    async def of(self, client: ClientSession) -> ToolList:
        """The tool list of a client session."""
        tool_list = client.tool_list
        if tool_list is None:
            params = ListTools(session_id=client.session_id)
            if is_shared(self._runtime.store):
                # Another replica may have the session open.
                tools = await self._runtime.ask_inline("tools.list", params, client.who)
            else:
                tools = await self._runtime.service.list_tools(params, client.who)
            tool_list = build_tool_list(tools, self._runtime.registry, client.session_id)
            if not self._runtime.service.has_changing_tools(client.session_id):
                client.tool_list = tool_list
        return tool_list

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The parameter schema of a tool whose arguments are repeated in headers; None for others.
        It is cached: walking a schema takes as long as a call.
        """
        definition = self._runtime.registry.get(name)
        if definition is None:
            return None
        known = self._schemas.get(name)
        if known is None or known[0] is not definition:
            schema = (
                definition.parameters if X_MCP_HEADER_KEY in str(definition.parameters) else None
            )
            known = self._schemas[name] = (definition, schema)
        return known[1]

    @contextmanager
    def following(self) -> Generator[None]:
        """Watch the registry while any client is served."""
        loop = asyncio.get_running_loop()

        def hear(_: object) -> None:
            # Called in the thread that changes the registry, after the sessions have changed.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._changed)

        if self._end is None:
            self._end = self._runtime.registry.subscribe(hear)
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if self._followers == 0:
                self._end()
                self._end = None

    def _changed(self) -> None:
        for client in self._clients:
            client.tool_list = None
        publishing = asyncio.ensure_future(self._notifications.publish(ToolsListChanged()))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
