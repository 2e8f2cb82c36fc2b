"""Tools and contexts that the tests of host tools share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcrib.host_tools import HostToolDefinition, ToolContext, ToolResult, ToolScope

Maker = Callable[[ToolContext], Any]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}


async def echo(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    return ToolResult(success=True, output=f"{context.session_id}: {input['query']}")


def define(
    name: str = "search",
    *,
    factory: Maker | None = None,
    visible_when: Callable[[ToolContext], bool] | None = None,
    **changes: Any,
) -> HostToolDefinition:
    sound: dict[str, Any] = {"description": "Search the shop", "parameters": SCHEMA}
    if factory is None:
        sound["handler"] = echo
    parts: dict[str, Any] = {**sound, "factory": factory, "visible_when": visible_when, **changes}
    return HostToolDefinition(name=name, **parts)


def of_session(
    name: str = "search", *, factory: Maker | None = None, **changes: Any
) -> HostToolDefinition:
    return define(name, scope=ToolScope.SESSION, factory=factory, **changes)


def context_for(session_id: str = "s", **parts: Any) -> ToolContext:
    return ToolContext(session_id=session_id, cwd="/shop", **parts)


def names(definitions: Any) -> list[str]:
    return [each.name for each in definitions]
