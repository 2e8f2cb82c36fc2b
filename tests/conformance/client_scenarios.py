"""The client of the suite's client scenarios without a sign-in: a gateway that has mounted the
scenario's server, and a client of the gateway that calls every tool and answers every form.

`conformance client --command "python -m tests.conformance.client_scenarios" --scenario NAME` adds
the address of the server to the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, cast

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from toolcrib.host_tools import parse_host_tools
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.transports.mcp import McpServer

NAME = "suite"
FOCAL, ECHO = f"{NAME}_json_schema_2020_12_tool", f"{NAME}_json_schema_echo"
STATELESS = "2026-07-28"
SAMPLES: dict[str, Any] = {
    "string": "a text",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


def sample(schema: Mapping[str, Any]) -> Any:
    """A value that fits a schema, as far as the scenarios have any."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    return SAMPLES.get(schema.get("type", "string"), "a text")


def arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a tool requires."""
    members = cast("dict[str, Any]", schema.get("properties", {}))
    return {name: sample(members.get(name, {})) for name in schema.get("required", ())}


async def fill_in(context: Any, params: Any) -> ElicitResult:
    """Somebody who leaves the defaults of a form as they are, and fills in the rest."""
    members = cast("dict[str, Any]", params.requested_schema.get("properties", {}))
    content = {name: sample(member) for name, member in members.items()}
    return ElicitResult(action="accept", content=content)


async def visit(client: Client) -> None:
    """Call every tool, as the scenario says or with what it requires, all at once."""
    context = cast("dict[str, Any]", json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    calls = [(f"{NAME}_{call['name']}", call["arguments"]) for call in context.get("toolCalls", ())]
    if not calls:
        calls = [(name, arguments(tool.input_schema)) for name, tool in tools.items()]
    if FOCAL in tools:
        # This scenario wants to see the schema as it arrived.
        calls = [(ECHO, {"schema": tools[FOCAL].input_schema})]

    async def call(name: str, given: Mapping[str, Any]) -> None:
        # An argument without a value is left out: a boolean is not null.
        sent = {key: value for key, value in given.items() if value is not None}
        try:
            result = await client.call_tool(name, sent)
            print(name, "failed" if result.is_error else "done", result.content, file=sys.stderr)
        except MCPError as error:
            print(name, error, file=sys.stderr)

    await asyncio.gather(*(call(*each) for each in calls))


async def main(url: str) -> None:
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    # JSON is YAML.
    entry = {"url": url, "approval": "policy"}
    file = parse_host_tools(json.dumps({"mcp_servers": {NAME: entry}}))
    async with create_runtime(RuntimeConfig(mcp_servers=file.mcp_servers)) as runtime:
        server = McpServer(runtime)
        mode = STATELESS if version == STATELESS else "legacy"
        async with Client(server.sdk, mode=mode, elicitation_callback=fill_in) as client:
            await visit(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
