"""Mounted MCP servers: the runtime's in every session, a client's in its own session."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.mcp_client.config import client_source
from toolcrib.mcp_client.server import MountedServer
from toolcrib.runtime.principal_servers import (
    PrincipalServers,
    exchanges_tokens,
    is_personal,
    needs_credential,
)
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.features.registry import FeatureChange
    from toolcrib.mcp_client.config import ConnectionTiming, McpServerConfig
    from toolcrib.mcp_client.remote_features import RemoteFeatures
    from toolcrib.mcp_client.server_credentials import ServerCredentials
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.session.session import Session
    from toolcrib.store.store import SessionInfo
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)

FeatureListener: TypeAlias = "Callable[[RemoteFeatures, FeatureChange], None]"
"""Called with the features of a server, and what changed."""

FIRST_SECONDS: Final = 20.0
"""How long a session waits for servers that have not connected yet."""


@dataclass(slots=True)
class SessionServerTools:
    """The tools of the mounted servers for one session: those it gets by name, those it does not
    get with the reason, and in `away` the servers that are disconnected.
    """

    tools: dict[str, Tool[Any, Any]] = field(default_factory=dict[str, Any])
    withheld: dict[str, str] = field(default_factory=dict[str, str])
    away: dict[str, str] = field(default_factory=dict[str, str])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """The source of each withheld tool."""

    @property
    def unavailable(self) -> dict[str, str]:
        """The withheld tools and disconnected servers, with the reason."""
        return {**self.away, **self.withheld}

    def withhold(self, name: str, source: str, reason: str) -> None:
        """Withhold a tool from the session."""
        self.withheld[name], self.sources[name] = reason, source


class MountedServers:
    """Connects the servers of a runtime and its sessions, and keeps their tools up to date."""

    def __init__(
        self,
        configs: Iterable[McpServerConfig],
        live_sessions: Callable[[], Iterable[LiveSession]],
        timing: ConnectionTiming | None = None,
        credentials: Callable[[], ServerCredentials] | None = None,
    ) -> None:
        self._live_sessions = live_sessions
        self._timing = timing
        self._feature_listeners: dict[object, FeatureListener] = {}
        self._credentials = credentials
        self._configs = tuple(configs)
        self.personal = PrincipalServers(self._server)
        self.personal.configure(self._configs)
        self._shared = [self._server(each) for each in self._configs if not is_personal(each)]
        self._remounting = asyncio.Lock()
        self._is_closed = False
        self._own: dict[str, list[MountedServer]] = {}
        self._session_tools: dict[str, SessionServerTools] = {}
        self._attempts = [_connect(server) for server in self._shared]
        self._ready_deadline = asyncio.get_running_loop().time() + FIRST_SECONDS

    async def ready(self, principal: str | None = None) -> None:
        """Wait for the first connection attempt of every server, at most `FIRST_SECONDS` from the
        start, and of the servers that `principal` has a connection of its own to. The tools of a
        slower server are added when it connects.
        """
        await _wait(self._attempts, self._ready_deadline - asyncio.get_running_loop().time())
        if self.personal:
            await _wait(self.personal.attempts(principal), FIRST_SECONDS)

    async def ready_for(self, session: Callable[[], Awaitable[SessionInfo | None]]) -> None:
        """`ready`, for the owner of a session, who is looked up only if it matters."""
        info = await session() if self.personal else None
        await self.ready(None if info is None else info.owner)

    @property
    def takes_exchanged_tokens(self) -> bool:
        """Whether callers' own tokens are exchanged for those of a server."""
        return any(exchanges_tokens(config) for config in self._configs)

    def config_of(self, name: str) -> McpServerConfig | None:
        """The configuration of a server of the runtime; None when there is none of the name."""
        return next((each for each in self._configs if each.name == name), None)

    @property
    def are_ready(self) -> bool:
        """Whether `ready` would return at once."""
        is_late = asyncio.get_running_loop().time() >= self._ready_deadline
        return is_late or all(attempt.done() for attempt in self._attempts)

    @property
    def shared(self) -> Sequence[MountedServer]:
        """The servers of the runtime, which every session has."""
        return tuple(self._shared)

    @property
    def of_sessions(self) -> Mapping[str, Sequence[MountedServer]]:
        """The servers that clients brought, by the session that has them."""
        return {session_id: tuple(servers) for session_id, servers in self._own.items()}

    def faults(self) -> dict[str, str | None]:
        """Why each server of the runtime cannot be called now; None for one that can."""
        return {server.config.name: server.fault for server in self._shared}

    async def remount(self, configs: Sequence[McpServerConfig]) -> None:
        """Replace the servers of the runtime. A server whose configuration is unchanged keeps its
        connection. New servers connect before old ones are closed, and calls that run on a closed
        one fail.
        """
        async with self._remounting:
            before = list(self._shared)
            unchanged = {
                server.config.name: server for server in before if server.config in configs
            }
            self._configs = tuple(configs)
            await self.personal.remount(self._configs)
            configs = [config for config in configs if not is_personal(config)]
            servers = [unchanged.get(config.name) or self._server(config) for config in configs]
            new = [server for server in servers if server not in before]
            try:
                await _wait([_connect(server) for server in new], FIRST_SECONDS)
            except asyncio.CancelledError:
                await _close(new)
                raise
            if self._is_closed:
                await _close(new)
                return
            self._shared = servers
            earlier = {server.config.name: server for server in before}
            for server in new:
                old = earlier.get(server.config.name)
                if old is not None and server.fault is None:
                    server.history.follow(old.history, old.tools, server.tools)
            for live in self._live_sessions():
                self._try_refresh(live)
            for server in before:
                if server not in servers:
                    server.features.disconnected()
            await _close(server for server in before if server not in servers)

    async def close(self) -> None:
        """Close every server."""
        self._is_closed = True
        own = [server for servers in self._own.values() for server in servers]
        self._own.clear()
        await _close([*self._shared, *own])
        await self.personal.close()

    def names(self) -> set[str]:
        """The names of all tools that the runtime's servers have now."""
        return {
            name
            for server in (*self._shared, *self.personal.all)
            for name in (*server.tools.served, *server.tools.invalid)
        }

    def mount(
        self, session: Session, taken: Collection[str], is_wanted: Callable[[str], bool]
    ) -> SessionServerTools:
        """The server tools of a session that opens. Names in `taken` belong to other tools."""
        self.personal.enter(session.owner, session.session_id)
        server_tools = self._tools_for(session.session_id, session.owner, taken, is_wanted)
        self._session_tools[session.session_id] = server_tools
        for name in server_tools.withheld:
            _record_withheld(session, server_tools, name)
        return server_tools

    async def mount_for(
        self,
        live: LiveSession,
        configs: Sequence[McpServerConfig],
        egress: EgressPolicy | None,
    ) -> None:
        """Mount servers of a client in its own session, under a source that no policy rule for the
        servers of the runtime matches. `egress` bounds their addresses.
        """
        session_id = live.session.session_id
        servers = [
            MountedServer(
                config,
                client_source(config),
                self._changed,
                environ=None,
                egress=egress,
                timing=self._timing,
            )
            for config in configs
        ]
        for server in servers:
            self._follow_features(server)
        self._own.setdefault(session_id, []).extend(servers)
        await _wait([_connect(server) for server in servers], FIRST_SECONDS)
        self.refresh(live)

    async def unmount(self, session_id: str) -> None:
        """Close the servers of a session that has ended."""
        self._session_tools.pop(session_id, None)
        self.personal.leave(session_id)
        await _close(self._own.pop(session_id, []))

    def name_freed(self, session_id: str) -> None:
        """A host tool of a session was removed: a server tool of its name may take its place."""
        for live in self._live_sessions():
            if live.session.session_id == session_id:
                self.refresh(live)

    def refresh(self, live: LiveSession) -> None:
        """Give a session the tools that its servers have now."""
        session_id = live.session.session_id
        old = self._session_tools.get(session_id)
        if old is None:
            return
        taken = [name for name in live.executor.tools if name not in old.tools]
        new = self._tools_for(session_id, live.session.owner, taken, live.tools.is_wanted)
        self._session_tools[session_id] = new
        for name in old.tools.keys() - new.tools.keys():
            live.tools.remove(name)
            live.own_tools.discard(name)
        for name, tool in list(new.tools.items()):
            _add(live, tool, old.tools.get(name), new)
        live.own_tools.update(self._own_names(session_id, new))
        for name in old.unavailable.keys() - new.unavailable.keys():
            live.missing.pop(name, None)
        live.missing.update(new.unavailable)
        for name, reason in new.withheld.items():
            if old.withheld.get(name) != reason:
                _record_withheld(live.session, new, name)

    def _changed(self, server: MountedServer) -> None:
        for live in self._live_sessions():
            session = live.session
            own = (*self._own.get(session.session_id, ()), *self.personal.of(session.owner))
            if server in self._shared or server in own:
                self._try_refresh(live)

    def _try_refresh(self, live: LiveSession) -> None:
        try:
            self.refresh(live)
        except Exception:
            logger.exception(
                "the server tools of session %s were not refreshed", live.session.session_id
            )

    def _server(self, config: McpServerConfig, principal: str | None = None) -> MountedServer:
        source, credential = f"mcp:{config.name}", None
        if self._credentials is not None and needs_credential(config):
            # A server whose variable is missing says so when it is to be connected.
            with suppress(InvalidTool):
                credential = self._credentials().credential_for(config, principal)
        server = MountedServer(
            config,
            source,
            self._changed,
            environ=os.environ,
            timing=self._timing,
            principal=principal,
            credential=credential,
        )
        self._follow_features(server)
        return server

    def follow_features(self, listener: FeatureListener) -> Callable[[], None]:
        """Call `listener` when resources or prompts of a server changed; returns the function that
        ends it.
        """
        token = object()
        self._feature_listeners[token] = listener

        def end() -> None:
            self._feature_listeners.pop(token, None)

        return end

    def _follow_features(self, server: MountedServer) -> None:
        def hear(change: FeatureChange) -> None:
            for listener in list(self._feature_listeners.values()):
                listener(server.features, change)

        server.features.on_change = hear

    def _tools_for(
        self,
        session_id: str,
        owner: str | None,
        taken: Collection[str],
        is_wanted: Callable[[str], bool],
    ) -> SessionServerTools:
        server_tools = SessionServerTools()
        own = self._own.get(session_id, ())
        server_tools.away.update(self.personal.refusals(owner))
        for server in (*self._shared, *self.personal.of(owner), *own):
            if server.fault is not None:
                server_tools.away[server.source] = server.fault
            for name, reason in server.tools.invalid.items():
                if is_wanted(name):
                    server_tools.withhold(name, server.source, reason)
            for name, tool in server.tools.served.items():
                if not is_wanted(name):
                    continue
                if name in server_tools.tools:
                    reason = f"{server_tools.tools[name].source} has a tool of that name"
                    server_tools.withhold(name, server.source, reason)
                elif name in taken:
                    server_tools.withhold(
                        name, server.source, "the session has a tool of that name"
                    )
                else:
                    server_tools.tools[name] = tool
        return server_tools

    def _own_names(self, session_id: str, server_tools: SessionServerTools) -> list[str]:
        own = {server.source for server in self._own.get(session_id, [])}
        return [name for name, tool in server_tools.tools.items() if tool.source in own]


def _add(
    live: LiveSession, tool: Tool[Any, Any], old: Tool[Any, Any] | None, new: SessionServerTools
) -> None:
    if tool == old:
        return
    try:
        live.tools.add(tool)
    except DuplicateTool as error:
        # Another tool of that name takes effect in the next turn.
        del new.tools[tool.name]
        new.withhold(tool.name, tool.source, str(error))


def _record_withheld(session: Session, server_tools: SessionServerTools, name: str) -> None:
    """Log and record that the session does not get a tool."""
    reason, source = server_tools.withheld[name], server_tools.sources[name]
    logger.warning("session %s has no tool %r: %s", session.session_id, name, reason)
    session.note(
        ToolWithheld(
            session_id=session.session_id,
            at=session.clock(),
            turn=session.last_turn,
            tool=ToolRef(name, source, "0.0.0", "", "local"),
            reason=reason,
        )
    )


def _connect(server: MountedServer) -> asyncio.Task[None]:
    server.start()
    return asyncio.create_task(server.first_attempt())


async def _wait(attempts: Collection[asyncio.Task[None]], seconds: float) -> None:
    if any(not attempt.done() for attempt in attempts):
        await asyncio.wait(attempts, timeout=max(0.0, seconds))


async def _close(servers: Iterable[MountedServer]) -> None:
    await asyncio.gather(*(server.close() for server in servers))
