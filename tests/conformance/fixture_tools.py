"""The fixture's tools that need only what every Toolcrib tool has."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance import contents
from tests.conformance.fixture_client import content
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext

NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
STEP_SECONDS = 0.12
"""Longer than the time in which rapid progress is told as one."""

DRAFT_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

MIRRORED: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
    "additionalProperties": False,
}
"""A client repeats this argument in a header, for whatever routes requests."""


def tool(name: str, handler: Any, parameters: dict[str, Any] = NOTHING) -> HostToolDefinition:
    return HostToolDefinition(name, f"The fixture {name}.", parameters, handler)


async def simple_text(input: dict[str, Any], context: ToolContext) -> str:
    return "This is a simple text response for testing."


async def image_content(input: dict[str, Any], context: ToolContext) -> str:
    return content(contents.image())


async def audio_content(input: dict[str, Any], context: ToolContext) -> str:
    return content(contents.audio())


async def embedded_resource(input: dict[str, Any], context: ToolContext) -> str:
    return content(
        contents.resource("test://embedded-resource", "This is an embedded resource content.")
    )


async def multiple_content_types(input: dict[str, Any], context: ToolContext) -> str:
    return content(
        contents.text("Multiple content types test:"),
        contents.image(),
        contents.resource(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        ),
    )


async def error_handling(input: dict[str, Any], context: ToolContext) -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


async def with_progress(input: dict[str, Any], context: ToolContext) -> str:
    for step in (0, 50, 100):
        context.progress(step, 100, f"Completed step {step} of 100")
        await asyncio.sleep(STEP_SECONDS)
    return "All steps are done."


async def described(input: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    return input


def tool_change(registry: HostToolRegistry) -> HostToolDefinition:
    """A tool that changes which tools there are."""
    changing = tool("test_changing", simple_text)

    async def trigger(input: dict[str, Any], context: ToolContext) -> str:
        if not await registry.unregister(changing.name):
            await registry.register(changing)
        return "The tools have changed."

    return tool("test_trigger_tool_change", trigger)


PLAIN_TOOLS = (
    tool("test_simple_text", simple_text),
    tool("test_image_content", image_content),
    tool("test_audio_content", audio_content),
    tool("test_embedded_resource", embedded_resource),
    tool("test_multiple_content_types", multiple_content_types),
    tool("test_error_handling", error_handling),
    tool("test_tool_with_progress", with_progress),
    tool("json_schema_2020_12_tool", described, DRAFT_2020_12),
    tool("test_mirrored_argument", described, MIRRORED),
)
