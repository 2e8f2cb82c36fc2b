"""The inspection of servers outside of a gateway: connect, read what they declare, and leave."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolcrib.errors import UsageError
from toolcrib.mcp_client.server import MountedServer

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.pins import PinDifference, ServerPins


@dataclass(frozen=True, slots=True)
class InspectedServer:
    """A server with pins: what differs from them, and the pins of what it declares now."""

    name: str
    differences: tuple[PinDifference, ...]
    pins: ServerPins
    is_first: bool
    """Whether nothing of it was pinned before."""


async def inspected(
    configs: Sequence[McpServerConfig], names: Collection[str] | None
) -> list[InspectedServer]:
    """Inspect the servers of these names, or all that have pins. Raises `UsageError` for a name
    that there is not, one without pins, and a server that does not answer.
    """
    known = {config.name: config for config in configs}
    if unknown := [name for name in names or () if name not in known]:
        raise UsageError(f"there is no MCP server {unknown[0]!r}; there are: {', '.join(known)}")
    chosen = [known[name] for name in names or known]
    if names is None:
        chosen = [config for config in chosen if config.terms.pins is not None]
    if not chosen:
        raise UsageError("no MCP server has pins; name a file: mcp_servers.NAME.pins: pins.json")
    async with AsyncExitStack() as stack:
        servers: list[MountedServer] = []
        for config in chosen:
            server = MountedServer(config, f"mcp:{config.name}", _ignore, environ=os.environ)
            stack.push_async_callback(server.close)
            server.start()
            servers.append(server)
        return [await _inspect(server) for server in servers]


async def _inspect(server: MountedServer) -> InspectedServer:
    name = server.config.name
    await server.first_attempt()
    check = server.pin_check()
    if check is None:
        raise UsageError(f"the MCP server {name!r} has no pins; name a file: pins: pins.json")
    if server.fault is not None:
        raise UsageError(f"the MCP server {name!r} is not connected: {server.fault}")
    listed = server.tools.listed
    return InspectedServer(
        name,
        tuple(check.differences(listed)),
        check.accepted(listed),
        is_first=check.pins.target is None,
    )


def _ignore(server: MountedServer) -> None:
    """Nobody uses its tools."""
