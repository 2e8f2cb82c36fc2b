"""Connections of each principal to mounted servers: how long they are kept, and how many."""

from __future__ import annotations

import pytest

from tests.mcp_client.mounted_servers import free_port, terms
from tests.mcp_client.oauth_town import until
from toolcrib.mcp_client.config import HttpServerConfig, McpServerConfig
from toolcrib.mcp_client.server import MountedServer
from toolcrib.runtime.principal_servers import PrincipalServers

pytestmark = pytest.mark.wire


def personal(name: str = "echo") -> HttpServerConfig:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    return HttpServerConfig(name=name, terms=terms(name), url=url, headers={"X-Who": "{principal}"})


def made(config: McpServerConfig, principal: str | None) -> MountedServer:
    return MountedServer(config, "mcp:echo", lambda _: None, environ={}, principal=principal)


def servers(**bounds: float) -> PrincipalServers:
    most = int(bounds.get("most", 10))
    kept = PrincipalServers(made, idle_seconds=bounds.get("idle", 60.0), max_principals=most)
    kept.configure([personal()])
    return kept


async def test_a_connection_is_closed_after_the_last_session() -> None:
    """Not while its principal has a session, and not that of another principal."""
    kept = servers(idle=0.01)
    kept.enter("ann", "s1")
    kept.enter("ann", "s2")
    kept.enter("ben", "s3")
    kept.leave("s1")
    [ann] = kept.of("ann")
    kept.leave("s2")
    await until(lambda: not kept.of("ann"))
    assert ann.principal == "ann"
    assert len(kept.of("ben")) == 1
    await kept.close()


async def test_there_are_at_most_so_many_principals() -> None:
    """One more takes the place of one without a session; when there is none, its server is
    unavailable with the reason.
    """
    kept = servers(most=2)
    kept.enter("ann", "s1")
    kept.enter("ben", "s2")
    kept.leave("s2")
    kept.enter("carl", "s3")
    assert [len(kept.of(name)) for name in ("ann", "ben", "carl")] == [1, 0, 1]

    kept.enter("dora", "s4")
    assert not kept.of("dora")
    assert "at most 2 principals" in kept.refusals("dora")["mcp:echo"]
    await kept.close()


async def test_another_configuration_closes_what_it_replaces() -> None:
    """A connection of an unchanged entry is kept; a new server is connected to for everybody."""
    kept = servers()
    kept.enter("ann", "s1")
    [before] = kept.of("ann")
    await kept.remount([before.config, personal("more")])
    assert [server.config.name for server in kept.of("ann")] == ["echo", "more"]
    assert kept.of("ann")[0] is before

    await kept.remount([])
    assert not kept.of("ann")
    await kept.close()
