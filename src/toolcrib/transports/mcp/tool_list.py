"""`tools/list`, made ready once for each session until its tools change.

The tools of a session as MCP tells them.
"""

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
"""Where a tool says in `_meta` which one it is exactly."""


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of one session, ready to be sent, and what the typed ones promise to give."""

    tools: list[dict[str, Any]]
    outputs: Mapping[str, Draft202012Validator]
    mounted: frozenset[str] = frozenset()
    """Tools of other MCP servers, whose results may be parts as MCP writes them."""


def tool_list(told: Tools, registry: HostToolRegistry, session_id: str) -> ToolList:
    """Make it of what `tools.list` gives; the registry knows the types of results."""
    tools: list[dict[str, Any]] = []
    outputs: dict[str, Draft202012Validator] = {}
    for facts in told.tools:
        schema = facts.output_schema
        if schema is None:
            definition = registry.get(facts.name, session_id=session_id)
            schema = output_schema(definition.typed if definition else None)
            if schema is not None:
                outputs[facts.name] = Draft202012Validator(schema)
        # The protocol knows structured content that is an object, and no other.
        is_told = schema is not None and schema.get("type") == "object"
        tools.append(_tool(facts, schema if is_told else None))
    mounted = frozenset(facts.name for facts in told.tools if is_mounted(facts.source))
    return ToolList(tools, outputs, mounted)


def is_mounted(source: str) -> bool:
    """Whether a tool is of another MCP server."""
    return source.startswith(("mcp:", "client-mcp:"))


def output_schema(tool: Tool[Any, Any] | None) -> dict[str, Any] | None:
    """The schema of a typed result that is an object; the protocol has no other kind."""
    if tool is None or tool.result_type is None:
        return None
    try:
        schema = TypeAdapter(tool.result_type).json_schema(mode="serialization")
    except (PydanticSchemaGenerationError, PydanticUserError):
        # A type that renders itself need not be one that JSON Schema can tell.
        return None
    return schema if schema.get("type") == "object" else None


def _tool(facts: ToolFacts, schema: dict[str, Any] | None) -> dict[str, Any]:
    title = facts.name.replace("_", " ").replace("-", " ").strip().capitalize() or facts.name
    told: dict[str, Any] = {
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
        told["outputSchema"] = schema
    return told


def _identity(facts: ToolFacts) -> dict[str, Any]:
    return {
        "version": facts.version,
        "digest": facts.digest,
        "category": facts.category,
        "requires_approval": facts.requires_approval,
        "deprecated": facts.deprecated,
    }


class ToolListHandler:
    """Answers `tools/list`, and knows what the tools promise to give."""

    def __init__(self, runtime: Runtime, seats: ClientSessions, telling: Notifications) -> None:
        self._runtime = runtime
        self._seats = seats
        self._telling = telling
        self._publishing: set[asyncio.Future[None]] = set()
        self._schemas: dict[str, tuple[HostToolDefinition, dict[str, Any] | None]] = {}
        self._followers = 0
        self._end: Callable[[], None] | None = None

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Answer one request."""
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "there is one page of tools; leave the cursor out")
        self._seats.who_asks(ctx).check("read", "tools/list")
        self._telling.hear(ctx)
        found = await self.of(await self._seats.of(ctx))
        return {"resultType": "complete", "tools": found.tools}

    async def of(self, seat: ClientSession) -> ToolList:
        """The tools of a seat."""
        found = seat.offering
        if found is None:
            asked = ListTools(session_id=seat.session_id)
            told = await self._runtime.service.list_tools(asked, seat.who)
            found = tool_list(told, self._runtime.registry, seat.session_id)
            seat.offering = found
        return found

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema of a tool's arguments, if headers have to repeat some of them. That is looked
        for once: to walk a schema takes as long as a call.
        """
        found = self._runtime.registry.get(name)
        if found is None:
            return None
        known = self._schemas.get(name)
        if known is None or known[0] is not found:
            schema = found.parameters if X_MCP_HEADER_KEY in str(found.parameters) else None
            known = self._schemas[name] = (found, schema)
        return known[1]

    @contextmanager
    def following(self) -> Generator[None]:
        """Hear of changes for as long as somebody is served."""
        loop = asyncio.get_running_loop()

        def hear(_: object) -> None:
            # In whichever thread changes the registry, and after the sessions were told.
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
        for seat in self._seats:
            seat.offering = None
        publishing = asyncio.ensure_future(self._telling.publish(ToolsListChanged()))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
