"""The tools of a session as MCP tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jsonschema_rs import Draft202012Validator
from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.runtime.messages import ToolFacts, Tools
    from toolcrib.tools.tool import Tool

TOOL_META: Final = "toolcrib/tool"
"""Where a tool says in `_meta` which one it is exactly."""


@dataclass(frozen=True, slots=True)
class Offering:
    """The tools of one session, ready to be sent, and what the typed ones promise to give."""

    tools: list[dict[str, Any]]
    outputs: Mapping[str, Draft202012Validator]
    mounted: frozenset[str] = frozenset()
    """Tools of other MCP servers, whose results may be parts as MCP writes them."""


def offering(told: Tools, registry: HostToolRegistry, session_id: str) -> Offering:
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
    return Offering(tools, outputs, mounted)


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
