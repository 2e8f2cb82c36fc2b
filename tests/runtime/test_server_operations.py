"""The mounted MCP servers as an operator sees them: state, restarts, last error, changed tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import QUICK, stdio
from tests.runtime.host_runtime import CALLER, call, host_tool, new_session, serving
from toolcrib.mcp_client import HttpServerConfig, MountTerms, client_server
from toolcrib.mcp_client.server import MountedServer
from toolcrib.runtime import gateway_credentials
from toolcrib.runtime.catalog_messages import ServerFacts
from toolcrib.runtime.mounted_servers import MountedServers
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime

pytestmark = pytest.mark.wire


class NotedServers(MountedServers):
    """Servers that reconnect without long pauses, and note every change."""

    def __init__(self, configs: Any, live: Any, **more: Any) -> None:
        self.news = asyncio.Event()
        super().__init__(configs, live, timing=QUICK, **more)

    def _changed(self, server: MountedServer) -> None:
        super()._changed(server)
        self.news.set()


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test wait for a change of a server."""
    monkeypatch.setattr(gateway_credentials, "MountedServers", NotedServers)


@asynccontextmanager
async def with_peer(**config: Any) -> AsyncGenerator[tuple[Runtime, str]]:
    """A runtime with the peer mounted, and a session in it."""
    async with serving(mcp_servers=[stdio()], **config) as runtime:
        yield runtime, await new_session(runtime)


async def server_when(runtime: Runtime, holds: Callable[[ServerFacts], bool]) -> ServerFacts:
    """The server, once something holds of it."""
    servers = runtime.service.catalog.sessions.servers
    assert isinstance(servers, NotedServers)
    async with asyncio.timeout(PATIENCE):
        while True:
            servers.news.clear()
            [facts] = (await runtime.list_servers()).servers
            if holds(facts):
                return facts
            await servers.news.wait()


async def test_a_connected_server_says_what_it_is_and_has() -> None:
    """An operator sees what is mounted without a look into the configuration."""
    async with with_peer() as (runtime, _):
        [facts] = (await runtime.list_servers()).servers

    assert (facts.name, facts.source, facts.state) == ("peer", "mcp:peer", "connected")
    assert (facts.transport, facts.connections, facts.restarts) == ("stdio", 1, 0)
    assert (facts.last_error, facts.changes) == (None, [])
    assert "peer_add" in facts.tools
    assert (facts.program or "").startswith("peer")
    assert facts.latency_seconds is not None


async def test_a_server_that_dies_shows_why_and_comes_back() -> None:
    """The last error stays to be read after the server is back, and the restart is counted."""
    async with with_peer() as (runtime, session):
        before = (await runtime.list_servers()).servers[0]
        await call(runtime, session, "peer_die")
        facts = await server_when(runtime, lambda each: each.restarts == 1)

    assert facts.state == "connected"
    assert facts.last_error is not None
    assert before.since <= (facts.last_error_at or 0) <= facts.since


async def test_a_tool_that_changes_is_shown_with_both_digests() -> None:
    """A server that describes its tool anew is caught: what was approved was another tool."""
    async with with_peer() as (runtime, session):
        old = (await runtime.get_catalog_tool("peer_shifty")).entry.digest
        await call(runtime, session, "peer_shift", description="Deletes everything.")
        changed = await server_when(runtime, lambda each: len(each.changes) == 1)
        new = (await runtime.get_catalog_tool("peer_shifty")).entry.digest
        await call(runtime, session, "peer_shift", description="")
        removed = await server_when(runtime, lambda each: len(each.changes) == 2)

    [change] = changed.changes
    assert (change.name, change.kind) == ("peer_shifty", "changed")
    assert (change.old_digest, change.new_digest) == (old, new)
    assert old != new
    assert any("description" in each for each in change.changes)
    assert [each.kind for each in removed.changes] == ["removed", "changed"]


async def test_a_program_under_the_same_name_is_a_change_of_its_tools() -> None:
    """What is mounted anew is compared with what was there before."""
    async with serving(mcp_servers=[stdio()]) as runtime:
        await new_session(runtime)
        await runtime.service.remount_servers([replace(stdio(), env={"ACCOUNT": "another"})])
        [facts] = (await runtime.list_servers()).servers

    assert {each.kind for each in facts.changes} == {"changed"}
    assert "peer_add" in {each.name for each in facts.changes}
    assert "another" not in repr(facts)


async def test_nothing_secret_is_in_the_answer() -> None:
    """Neither headers nor the path of an address are shown, and its fault has none of them."""
    config = HttpServerConfig(
        name="web",
        terms=MountTerms(prefix="web_"),
        url="http://127.0.0.1:9/key-of-the-address/mcp?token=in-the-query",
        headers={"Authorization": "Bearer secret-of-the-header"},
    )
    async with serving(mcp_servers=[config]) as runtime:
        facts = await server_when(runtime, lambda each: each.last_error is not None)

    assert (facts.target, facts.transport) == ("http://127.0.0.1:9", "http")
    assert facts.failed_attempts >= 1
    for secret in ("key-of-the-address", "in-the-query", "secret-of-the-header"):
        assert secret not in repr(facts)


async def test_a_fault_of_the_configuration_is_told_apart() -> None:
    """A variable that is not set is never tried again: it is no outage."""
    async with serving(mcp_servers=[stdio(env={"KEY": "${NOT_SET_ANYWHERE}"})]) as runtime:
        facts = await server_when(runtime, lambda each: each.last_error is not None)

    assert facts.state == "invalid"
    assert "NOT_SET_ANYWHERE" in (facts.last_error or "")
    assert facts.next_attempt_at is None


async def test_the_server_of_a_client_is_shown_to_those_who_see_its_session() -> None:
    """Another caller does not learn what a client brought."""
    other = Principal("eve", frozenset({"caller"}))
    config = stdio()
    brought = client_server("mine", command=config.command, args=config.args)
    async with serving(host_tool("add")) as runtime:
        session = await new_session(runtime, CALLER)
        await runtime.service.mount_servers(session, [brought], CALLER)
        [facts] = (await runtime.as_principal(CALLER).list_servers()).servers
        hidden = (await runtime.as_principal(other).list_servers()).servers

    assert (facts.session_id, hidden) == (session, [])


async def test_mounted_tools_are_in_the_catalog_with_their_server() -> None:
    """A tool of a server that is away is listed, with the reason why nobody can call it."""
    async with with_peer() as (runtime, session):
        entries = (await runtime.list_catalog(source="mcp:peer", limit=1_000)).tools
        assert {entry.withheld for entry in entries} == {None}
        assert all(entry.is_callable for entry in entries)
        await call(runtime, session, "peer_add", a=1, b=2)
        entry = (await runtime.get_catalog_tool("peer_add", source="mcp:peer")).entry
        assert (entry.id, entry.statistics.calls) == ("mcp:peer/peer_add", 1)
