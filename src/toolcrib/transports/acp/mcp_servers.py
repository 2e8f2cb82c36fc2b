"""The MCP servers that an editor mounts in a session."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from toolcrib.errors import InvalidTool
from toolcrib.mcp_client.config import McpServerConfig, client_server, client_source

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime

CAN_MOUNT: Final = find_spec("mcp") is not None
"""Whether the MCP SDK is installed."""

OfferedServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


class ClientServers:
    """Mounts the servers of an editor in sessions, each once while the session is open."""

    def __init__(self, runtime: Runtime, who: Principal) -> None:
        self._runtime = runtime
        self._who = who
        self._mounted: dict[str, set[str]] = {}

    async def mount(
        self, session_id: str, servers: Sequence[OfferedServer], cwd: str
    ) -> dict[str, str]:
        """Mount servers in a session; returns those that cannot be mounted, with the reason. The
        tools of a disconnected server are added when it connects.
        """
        if not self._who.may("admin"):
            # Mounting a server starts a program, which is more than calling tools.
            return {
                server.name: "mounting servers requires the scope 'admin'" for server in servers
            }
        wanted: list[McpServerConfig] = []
        unfit: dict[str, str] = {}
        have = self._mounted.setdefault(session_id, set())
        for server in servers:
            try:
                config = _config(server, cwd)
            except InvalidTool as error:
                unfit[server.name] = str(error)
                continue
            if (source := client_source(config)) not in have:
                have.add(source)
                wanted.append(config)
        if wanted:
            await self._runtime.service.mount_servers(session_id, wanted)
        return unfit

    def forget(self, session_id: str) -> None:
        """Forget the servers of a closed session."""
        self._mounted.pop(session_id, None)


def _config(server: OfferedServer, cwd: str) -> McpServerConfig:
    """The configuration of a server. Raises `InvalidTool`."""
    match server:
        case McpServerStdio(name=name, command=command, args=args):
            env = {variable.name: variable.value for variable in server.env}
            return client_server(name, command=command, args=args, env=env, cwd=cwd)
        case HttpMcpServer(name=name, url=url):
            headers = {header.name: header.value for header in server.headers}
            return client_server(name, url=url, headers=headers)
        case SseMcpServer():
            raise InvalidTool("a server over SSE cannot be mounted; use HTTP")
        case AcpMcpServer():
            raise InvalidTool("a server over ACP cannot be mounted; use stdio or HTTP")
