"""Mounted servers to which each principal has a connection of its own, with a credential of its
own: opened with its first session, kept for some time after its last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolcrib.errors import InvalidTool
from toolcrib.mcp_client.config import HttpServerConfig
from toolcrib.runtime.principal import OWNER_NAME

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.server import MountedServer

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300.0
"""How long connections stay open after the last session of their principal."""
MAX_PRINCIPALS: Final = 500
"""How many principals may have connections of their own at once."""


def is_personal(config: McpServerConfig) -> bool:
    """Whether each principal has a connection of its own to a server."""
    return isinstance(config, HttpServerConfig) and config.is_per_principal


def needs_credential(config: McpServerConfig) -> bool:
    """Whether a credential that is not in the configuration goes with each request."""
    if not isinstance(config, HttpServerConfig):
        return False
    return config.auth is not None or config.headers_command is not None


def exchanges_tokens(config: McpServerConfig) -> bool:
    """Whether callers' own tokens are exchanged for those of a server."""
    auth = config.auth if isinstance(config, HttpServerConfig) else None
    return auth is not None and auth.grant == "token_exchange"


@dataclass(slots=True)
class _Connections:
    """The connections of one principal."""

    servers: list[MountedServer] = field(default_factory=list["MountedServer"])
    attempts: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    refusals: dict[str, str] = field(default_factory=dict[str, str])
    """Servers that this principal cannot have, with the reason."""
    sessions: set[str] = field(default_factory=set[str])
    timer: asyncio.TimerHandle | None = None


class PrincipalServers:
    """The connections of all principals. `make_server` makes the server of one of them."""

    def __init__(
        self,
        make_server: Callable[[McpServerConfig, str | None], MountedServer],
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_principals: int = MAX_PRINCIPALS,
    ) -> None:
        self._make_server = make_server
        self._idle_seconds = idle_seconds
        self._max_principals = max_principals
        self._configs: Sequence[McpServerConfig] = ()
        self._of: dict[str, _Connections] = {}
        self._closings: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._configs)

    @property
    def all(self) -> Iterator[MountedServer]:
        """Every server of every principal."""
        return (server for each in self._of.values() for server in each.servers)

    def configure(self, configs: Iterable[McpServerConfig]) -> None:
        """Connect principals that come from now on to the personal ones of these servers."""
        self._configs = [config for config in configs if is_personal(config)]

    def of(self, principal: str | None) -> Sequence[MountedServer]:
        """The servers that a principal is connected to, or was refused by."""
        connections = self._of.get(principal or OWNER_NAME)
        return () if connections is None else connections.servers

    def refusals(self, principal: str | None) -> Mapping[str, str]:
        """The servers that a principal cannot have, by their source, with the reason."""
        connections = self._of.get(principal or OWNER_NAME)
        if connections is not None:
            return connections.refusals
        reason = f"at most {self._max_principals} principals are connected at once; try again later"
        return {f"mcp:{config.name}": reason for config in self._configs}

    def attempts(self, principal: str | None) -> Sequence[asyncio.Task[None]]:
        """Start to connect a principal, unless it is connected. Returns the first attempts."""
        connections = self._open(principal or OWNER_NAME)
        return () if connections is None else connections.attempts

    def enter(self, principal: str | None, session_id: str) -> None:
        """A session of a principal opens."""
        if not self._configs:
            return
        connections = self._open(principal or OWNER_NAME)
        if connections is not None:
            connections.sessions.add(session_id)
            if connections.timer is not None:
                connections.timer.cancel()
                connections.timer = None

    def leave(self, session_id: str) -> None:
        """A session has closed: after the last one of a principal its connections are closed."""
        for principal, connections in self._of.items():
            if session_id in connections.sessions:
                connections.sessions.discard(session_id)
                if not connections.sessions:
                    self._close_later(principal, connections)
                return

    async def remount(self, configs: Iterable[McpServerConfig]) -> None:
        """Use other configurations. A connection of an unchanged one is kept."""
        self.configure(configs)
        for principal, connections in list(self._of.items()):
            kept = [server for server in connections.servers if server.config in self._configs]
            closed = [server for server in connections.servers if server not in kept]
            connections.servers, connections.refusals = kept, {}
            names = {server.config.name for server in kept}
            for config in self._configs:
                if config.name not in names:
                    self._connect(principal, connections, config)
            await _close(closed)

    async def close(self) -> None:
        """Close every connection."""
        servers = list(self.all)
        for connections in self._of.values():
            if connections.timer is not None:
                connections.timer.cancel()
        self._of.clear()
        await _close(servers)
        if self._closings:
            await asyncio.wait(self._closings)

    def _open(self, principal: str) -> _Connections | None:
        """The connections of a principal, opened now; None when there are too many principals."""
        connections = self._of.get(principal)
        if connections is not None or not self._configs:
            return connections
        if len(self._of) >= self._max_principals and not self._make_room():
            return None
        connections = self._of[principal] = _Connections()
        for config in self._configs:
            self._connect(principal, connections, config)
        # A principal that opens no session after all is not connected for ever.
        self._close_later(principal, connections)
        return connections

    def _connect(self, principal: str, connections: _Connections, config: McpServerConfig) -> None:
        try:
            server = self._make_server(config, principal)
        except InvalidTool as error:
            connections.refusals[f"mcp:{config.name}"] = str(error)
            return
        server.start()
        connections.servers.append(server)
        connections.attempts.append(asyncio.create_task(server.first_attempt()))

    def _make_room(self) -> bool:
        idle = next((name for name, each in self._of.items() if not each.sessions), None)
        if idle is not None:
            self._close_now(idle)
        return idle is not None

    def _close_later(self, principal: str, connections: _Connections) -> None:
        loop = asyncio.get_running_loop()
        connections.timer = loop.call_later(self._idle_seconds, self._close_now, principal)

    def _close_now(self, principal: str) -> None:
        connections = self._of.pop(principal, None)
        if connections is None:
            return
        if connections.timer is not None:
            connections.timer.cancel()
        task = asyncio.ensure_future(_close(connections.servers))
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)


async def _close(servers: Iterable[MountedServer]) -> None:
    await asyncio.gather(*(server.close() for server in servers))
