"""Other MCP servers' tools: those of the runtime in all sessions, a client's in its own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import DuplicateTool
from toolcrib.ledger.events import ToolWithheld
from toolcrib.mcp_client.config import client_source
from toolcrib.mcp_client.server import MountedServer
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import ConnectionTiming, McpServerConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 20.0
"""How long sessions wait for servers that were not reached yet."""


@dataclass(slots=True)
class ServerTools:
    """What servers have for one session: tools by name, and what it does not get, with the reason.

    `away` are servers that cannot be called now.
    """

    tools: dict[str, Tool[Any, Any]] = field(default_factory=dict[str, Any])
    withheld: dict[str, str] = field(default_factory=dict[str, str])
    away: dict[str, str] = field(default_factory=dict[str, str])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """Where each tool that is withheld would have come from."""

    @property
    def unavailable(self) -> dict[str, str]:
        """All that cannot be called, with the reason."""
        return {**self.away, **self.withheld}

    def withhold(self, name: str, source: str, reason: str) -> None:
        """The session does not get this tool."""
        self.withheld[name], self.sources[name] = reason, source


class MountedServers:
    """Keeps the servers of a runtime and of its sessions, and their tools in the sessions."""

    def __init__(
        self,
        configs: Iterable[McpServerConfig],
        held: Callable[[], Iterable[LiveSession]],
        timing: ConnectionTiming | None = None,
    ) -> None:
        self._held = held
        self._timing = timing
        self._shared = [self._server(each) for each in configs]
        self._remounting = asyncio.Lock()
        self._is_closed = False
        self._own: dict[str, list[MountedServer]] = {}
        self._offers: dict[str, ServerTools] = {}
        self._tries = [_begin(server) for server in self._shared]
        self._patience = asyncio.get_running_loop().time() + FIRST_SECONDS

    async def ready(self) -> None:
        """Wait until every server of the runtime was tried once, and no longer than
        `FIRST_SECONDS` from the start: whoever is later brings its tools when it comes.
        """
        await _wait(self._tries, self._patience - asyncio.get_running_loop().time())

    async def remount(self, configs: Sequence[McpServerConfig]) -> None:
        """Have these servers in all sessions from now on, in the place of those of before. One
        that is configured as it was keeps its connection. A new one is tried first, so that what
        it replaces is there until then; calls that run on one that goes fail.
        """
        async with self._remounting:
            before = list(self._shared)
            kept = {each.config.name: each for each in before if each.config in configs}
            servers = [kept.get(each.name) or self._server(each) for each in configs]
            new = [each for each in servers if each not in before]
            try:
                await _wait([_begin(server) for server in new], FIRST_SECONDS)
            except asyncio.CancelledError:
                await _leave(new)
                raise
            if self._is_closed:
                await _leave(new)
                return
            self._shared = servers
            for held in self._held():
                self._follow(held)
            await _leave(each for each in before if each not in servers)

    async def close(self) -> None:
        """Leave every server."""
        self._is_closed = True
        own = [server for servers in self._own.values() for server in servers]
        self._own.clear()
        await _leave([*self._shared, *own])

    def mount(
        self, session: Session, taken: Collection[str], is_wanted: Callable[[str], bool]
    ) -> ServerTools:
        """The tools of a session that opens; names that are `taken` stay whose they are."""
        offer = self._offer(session.session_id, taken, is_wanted)
        self._offers[session.session_id] = offer
        for name in offer.withheld:
            _tell(session, offer, name)
        return offer

    async def mount_for(self, held: LiveSession, configs: Sequence[McpServerConfig]) -> None:
        """Servers that a client brings to its own session: as it writes them, and under a source
        that no rule for the runtime's servers fits.
        """
        session_id = held.session.session_id
        servers = [
            MountedServer(
                each, client_source(each), self._changed, environ=None, timing=self._timing
            )
            for each in configs
        ]
        self._own.setdefault(session_id, []).extend(servers)
        await _wait([_begin(server) for server in servers], FIRST_SECONDS)
        self.bring_up_to_date(held)

    async def unmount(self, session_id: str) -> None:
        """The session is over."""
        self._offers.pop(session_id, None)
        await _leave(self._own.pop(session_id, []))

    def bring_up_to_date(self, held: LiveSession) -> None:
        """Make a session have what the servers have now."""
        session_id = held.session.session_id
        old = self._offers.get(session_id)
        if old is None:
            return
        taken = [name for name in held.executor.tools if name not in old.tools]
        new = self._offer(session_id, taken, held.tools.is_wanted)
        self._offers[session_id] = new
        for name in old.tools.keys() - new.tools.keys():
            held.tools.remove(name)
            held.own_tools.discard(name)
        for name, tool in list(new.tools.items()):
            _put(held, tool, old.tools.get(name), new)
        held.own_tools.update(self._own_names(session_id, new))
        for name in old.unavailable.keys() - new.unavailable.keys():
            held.missing.pop(name, None)
        held.missing.update(new.unavailable)
        for name, reason in new.withheld.items():
            if old.withheld.get(name) != reason:
                _tell(held.session, new, name)

    def _changed(self, server: MountedServer) -> None:
        for held in self._held():
            own = self._own.get(held.session.session_id, [])
            if server in self._shared or server in own:
                self._follow(held)

    def _follow(self, held: LiveSession) -> None:
        try:
            self.bring_up_to_date(held)
        except Exception:
            logger.exception("session %s has not followed", held.session.session_id)

    def _server(self, config: McpServerConfig) -> MountedServer:
        source = f"mcp:{config.name}"
        return MountedServer(config, source, self._changed, environ=os.environ, timing=self._timing)

    def _offer(
        self, session_id: str, taken: Collection[str], is_wanted: Callable[[str], bool]
    ) -> ServerTools:
        offer = ServerTools()
        for server in (*self._shared, *self._own.get(session_id, [])):
            if server.fault is not None:
                offer.away[server.source] = server.fault
            for name, reason in server.tools.invalid.items():
                if is_wanted(name):
                    offer.withhold(name, server.source, reason)
            for name, tool in server.tools.served.items():
                if not is_wanted(name):
                    continue
                if name in offer.tools:
                    why = f"{offer.tools[name].source} has a tool of that name"
                    offer.withhold(name, server.source, why)
                elif name in taken:
                    offer.withhold(name, server.source, "the session has a tool of that name")
                else:
                    offer.tools[name] = tool
        return offer

    def _own_names(self, session_id: str, offer: ServerTools) -> list[str]:
        own = {server.source for server in self._own.get(session_id, [])}
        return [name for name, tool in offer.tools.items() if tool.source in own]


def _put(
    held: LiveSession, tool: Tool[Any, Any], old: Tool[Any, Any] | None, new: ServerTools
) -> None:
    if tool == old:
        return
    try:
        held.tools.add(tool)
    except DuplicateTool as error:
        # A tool from elsewhere that shows only in the next turn.
        del new.tools[tool.name]
        new.withhold(tool.name, tool.source, str(error))


def _tell(session: Session, offer: ServerTools, name: str) -> None:
    """Say of a tool that should have been there that it is not."""
    reason, source = offer.withheld[name], offer.sources[name]
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


def _begin(server: MountedServer) -> asyncio.Task[None]:
    server.start()
    return asyncio.create_task(server.first_attempt())


async def _wait(tries: Collection[asyncio.Task[None]], seconds: float) -> None:
    if any(not each.done() for each in tries):
        await asyncio.wait(tries, timeout=max(0.0, seconds))


async def _leave(servers: Iterable[MountedServer]) -> None:
    await asyncio.gather(*(server.close() for server in servers))
