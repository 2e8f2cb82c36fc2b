"""A server on the official SDK for the provider to call: `mcp_peer.py PORT newer|older`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

shown: dict[str, str] = {}
counts = {"sent": 0}


desk = MCPServer("desk")


@desk.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(number: int) -> dict[str, Any]:
    """Look at a letter."""
    return {"number": number, "from": "Ada"}


@desk.tool()
def send(to: str) -> str:
    """Send a letter."""
    counts["sent"] += 1
    return f"sent to {to}"


@desk.tool()
def fail() -> str:
    """Fail, and give the key away."""
    raise ToolError(f"no stamps for {shown.get('authorization')}")


@desk.tool()
def whoami() -> str:
    """Give the key away."""
    return f"you came with {shown.get('authorization')}"


@desk.tool()
def asked() -> dict[str, int]:
    """How often letters were sent."""
    return counts


def seen(app: Any) -> Any:
    async def look_at(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        shown.update(headers)
        await app(scope, receive, send)

    return look_at


def main(port: str, era: str) -> None:
    app: Any = desk.streamable_http_app()
    if era == "older":
        sys.path.insert(0, str(Path(__file__).parents[2] / "mcp_client"))
        peer: Any = importlib.import_module("peer")
        app = peer.without_the_newer_era(app)
    uvicorn.run(seen(app), port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
