"""Operations on the mounted MCP servers: how they are, and what became of their tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, assert_never
from urllib.parse import urlsplit

from toolcrib.mcp_client.config import HttpServerConfig, StdioServerConfig
from toolcrib.runtime.catalog_messages import ServerFacts, Servers, ToolChangeFacts
from toolcrib.runtime.ownership import may_see
from toolcrib.tools.identity import changes_between
from toolcrib.tools.prepared_tool import prepare

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.server import MountedServer
    from toolcrib.mcp_client.server_history import RemoteToolChange
    from toolcrib.runtime.messages import Nothing
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.service import Service
    from toolcrib.tools.identity import BindTo


async def list_servers(service: Service, params: Nothing, who: Principal) -> Servers:
    """The mounted MCP servers: those of the runtime, and of principals and sessions that the
    principal may see.
    """
    sessions, bind_to = service.catalog.sessions, service.catalog.config.bind_to
    shared = [_facts(server, None, bind_to) for server in sessions.servers.shared]
    personal = [
        _facts(server, None, bind_to)
        for server in sessions.servers.personal.all
        if may_see(who, server.principal)
    ]
    own = [
        _facts(server, session_id, bind_to)
        for session_id, servers in sessions.servers.of_sessions.items()
        if (live := sessions.find(session_id)) is not None and may_see(who, live.session.owner)
        for server in servers
    ]
    return Servers(servers=[*shared, *personal, *own])


def _facts(server: MountedServer, session_id: str | None, bind_to: BindTo) -> ServerFacts:
    history, config = server.history, server.config
    return ServerFacts(
        name=config.name,
        source=server.source,
        transport="stdio" if isinstance(config, StdioServerConfig) else "http",
        target=_target(config),
        state=history.state,
        since=history.since,
        program=history.program,
        connections=history.connections,
        restarts=max(0, history.connections - 1),
        failed_attempts=history.failed_attempts,
        last_error=history.last_fault,
        last_error_at=history.last_fault_at,
        next_attempt_at=history.next_attempt_at,
        latency_seconds=history.latency_seconds,
        tools=list(server.tools.served),
        withheld=dict(server.tools.invalid),
        changes=[_change(change, bind_to) for change in history.changes],
        approval=config.terms.approval,
        session_id=session_id,
        principal=server.principal,
    )


def _target(config: McpServerConfig) -> str:
    """Which program or host it is. Arguments, folders and paths may hold secrets."""
    match config:
        case StdioServerConfig():
            return os.path.basename(config.command)
        case HttpServerConfig():
            parts = urlsplit(config.url)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        case _:
            assert_never(config)


def _change(change: RemoteToolChange, bind_to: BindTo) -> ToolChangeFacts:
    old = None if change.old is None else prepare(change.old, bind_to=bind_to)
    new = None if change.new is None else prepare(change.new, bind_to=bind_to)
    kind: Literal["added", "removed", "changed"] = "changed"
    changes: tuple[str, ...] = ()
    if old is None:
        kind = "added"
    elif new is None:
        kind = "removed"
    else:
        changes = changes_between(old.identity.parts, new.identity.parts)
    either = new or old
    assert either is not None, "a change has a tool before it, after it, or both"
    return ToolChangeFacts(
        at=change.at,
        name=either.ref.name,
        kind=kind,
        old_digest=None if old is None else old.ref.digest,
        new_digest=None if new is None else new.ref.digest,
        changes=list(changes),
    )
