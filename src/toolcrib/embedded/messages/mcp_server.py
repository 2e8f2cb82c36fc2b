"""The MCP connector of the Messages API: `mcp_servers` and their `mcp_toolset` entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.messages.result import MCP_RESULT
from toolcrib.embedded.messages.tools import MCP_TYPE
from toolcrib.embedded.responses.request import ResponseRequest
from toolcrib.embedded.responses.writer import EventLog, ResponseWriter
from toolcrib.embedded.tools.tool import RequestContext, ToolPause

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.messages.request import Block, MessageRequest
    from toolcrib.embedded.tools.mcp import McpKind
    from toolcrib.embedded.tools.tool import OpenTool


def read_mcp_servers(request: MessageRequest) -> list[dict[str, Any]]:
    """The servers of a request, as the `mcp` tool of the Responses API takes them. Raises
    `ApiFault`.
    """
    toolsets = {
        str(tool.get("mcp_server_name")): tool
        for tool in request.tools or []
        if tool.get("type") == MCP_TYPE
    }
    servers: list[dict[str, Any]] = []
    for at, server in enumerate(request.mcp_servers or []):
        name, url = server.get("name"), server.get("url")
        if server.get("type") != "url" or not isinstance(name, str) or not isinstance(url, str):
            raise invalid(f"mcp_servers.{at}: give the type 'url', a name and a url.")
        config = server.get("tool_configuration")
        older = cast(dict[str, Any], config) if isinstance(config, dict) else {}
        servers.append(
            {
                "type": "mcp",
                "server_label": name,
                "server_url": url,
                "authorization": server.get("authorization_token"),
                "allowed_tools": _allowed(toolsets.pop(name, None), older),
                "require_approval": "never",
            }
        )
    if toolsets:
        raise invalid(f"tools: there is no MCP server {next(iter(toolsets))[:80]!r}.")
    return servers


def _allowed(toolset: Block | None, older: Mapping[str, Any]) -> list[str] | None:
    """The tools that are enabled by name; None for all of them."""
    if older.get("enabled") is False:
        return []
    if toolset is None:
        return older.get("allowed_tools")
    default: object = toolset.get("default_config") or {}
    configs: object = toolset.get("configs") or {}
    by_name = cast(dict[str, Any], configs) if isinstance(configs, dict) else {}
    if isinstance(default, dict) and cast(dict[str, Any], default).get("enabled") is False:
        return [name for name, config in by_name.items() if config.get("enabled") is True]
    if any(config.get("enabled") is False for config in by_name.values()):
        raise invalid(
            "tools: single tools of an MCP server cannot be switched off here; set default_config "
            "to enabled: false and enable tools by name."
        )
    return None


class McpServerTool:
    """The tools of one MCP server, open for one request."""

    def __init__(self, label: str, tool: OpenTool, writer: ResponseWriter) -> None:
        self.name = label
        self._tool = tool
        self._writer = writer

    @classmethod
    async def open(
        cls, kind: McpKind, config: Mapping[str, Any], access: ResourceAccess
    ) -> McpServerTool:
        """Connect to a server and list its tools. Raises `ApiFault` when it does not answer."""
        # The kind writes the items of a response, which are read here and go nowhere else.
        writer = ResponseWriter({"output": []}, EventLog())
        request = ResponseRequest(model="", input="")
        tool = await kind.open(config, request, RequestContext(writer, access))
        [listed] = writer.response["output"]
        if listed.get("error"):
            await tool.close()
            label = config["server_label"]
            raise invalid(f"mcp_servers: {label[:80]!r} cannot be used: {listed['error']}.")
        return cls(config["server_label"], tool, writer)

    @property
    def backend_tools(self) -> Sequence[Any]:
        """The tools of the server."""
        return self._tool.backend_tools

    def use(self, name: str) -> Block:
        """The block of a call."""
        own = name.removeprefix(f"{self.name}__")
        use = {"type": "mcp_tool_use", "id": new_id("mcptoolu"), "name": own}
        return {**use, "server_name": self.name}

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Block:
        """Call a tool of the server."""
        answer = await self._tool.run(name, arguments, self._writer)
        assert not isinstance(answer, ToolPause), "no call of these servers needs an approval"
        item = self._writer.response["output"][-1]
        content = [{"type": "text", "text": answer.text, "citations": None}]
        return {"type": MCP_RESULT, "is_error": item["status"] == "failed", "content": content}

    async def close(self) -> None:
        """End the connection."""
        await self._tool.close()
