"""The MCP servers that a client gives a session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.mcp_servers import HttpServer, McpServerConfig, MountTerms, StdioServer

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime

Given: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


async def mount_servers(
    runtime: Runtime, session_id: str, given: Sequence[Given], cwd: str
) -> dict[str, str]:
    """Give a session the tools of these servers; those that it does not get, with the reason."""
    missing: dict[str, str] = {}
    for server in given:
        try:
            as_config(server, cwd)
        except InvalidTool as error:
            missing[server.name] = str(error)
        else:
            missing[server.name] = "this runtime mounts no MCP servers for a session"
    return missing


def as_config(given: Given, cwd: str) -> McpServerConfig:
    """How to reach a server. A person approves its calls. Raises `InvalidTool`."""
    terms = MountTerms(prefix=re.sub(r"[^A-Za-z0-9_-]", "_", given.name) + "_")
    match given:
        case McpServerStdio():
            env = {each.name: _verbatim(given.name, each.value) for each in given.env}
            return StdioServer(
                name=given.name,
                terms=terms,
                command=given.command,
                args=tuple(given.args),
                env=env,
                cwd=cwd,
            )
        case HttpMcpServer():
            headers = {each.name: _verbatim(given.name, each.value) for each in given.headers}
            url = _verbatim(given.name, given.url)
            return HttpServer(name=given.name, terms=terms, url=url, headers=headers)
        case SseMcpServer():
            raise InvalidTool("servers over SSE are not mounted; use HTTP")
        case AcpMcpServer():
            raise InvalidTool("servers over ACP are not mounted; use stdio or HTTP")


def _verbatim(server: str, value: str) -> str:
    """A client has filled in its variables; ours are not for it to read."""
    if "${" in value:
        raise InvalidTool(f"MCP server {server!r}: fill in ${{...}} before you send it")
    return value
