"""The MCP endpoint of the HTTP server, at `/mcp`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from toolcrib.errors import Refused
from toolcrib.serving.refusals import send_refusal

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections
    from toolcrib.transports.mcp.endpoint import McpEndpoint
    from toolcrib.transports.mcp.server import McpServer

_PATH: Final = "/mcp"
_VERBS: Final[tuple[str, ...]] = ("GET", "POST", "DELETE")


def mcp_route(runtime: Runtime, server: McpServer | None, connections: Connections) -> Route:
    """The route of MCP. Without `server`, an `McpServer` with the defaults answers."""
    mounted = MountedMcp(runtime, server, connections)
    route = Route(_PATH, mounted, methods=[*_VERBS], name="mcp")
    # Starlette adds HEAD to GET, and a HEAD of an event stream would never end.
    route.methods = {*_VERBS}
    return route


class MountedMcp:
    """Imports the MCP SDK with the first request: a server of REST alone does not need it. An ASGI
    application.
    """

    def __init__(
        self, runtime: Runtime, server: McpServer | None, connections: Connections
    ) -> None:
        self._runtime = runtime
        self._server = server
        self._connections = connections
        self._endpoint: McpEndpoint | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._endpoint is None:
            if find_spec("mcp") is None:
                text = "MCP is not installed; pip install 'toolcrib[mcp]'"
                await send_refusal(send, Refused("unavailable", text))
                return
            self._endpoint = self._create_endpoint()
        await self._endpoint(scope, receive, send)

    def _create_endpoint(self) -> McpEndpoint:
        from toolcrib.transports.mcp.server import McpServer

        endpoint = (self._server or McpServer(self._runtime)).endpoint
        endpoint.keeps_tasks = self._connections.keeps_tasks
        self._connections.on_close(endpoint.close)
        return endpoint
