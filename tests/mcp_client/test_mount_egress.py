"""Servers whose address a caller chose: bound by the egress policy, and told nothing of what
answered there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.mcp_client.mounted_servers import QUICK, terms, web_peer
from toolcrib.egress import EgressPolicy
from toolcrib.mcp_client import HttpServerConfig, client_server
from toolcrib.mcp_client.server import MountedServer
from toolcrib.runtime import OWNER, Principal, RuntimeConfig, create_runtime

SECRET = "AKIA-SECRET-BODY"
CALLER = Principal("bob", frozenset({"caller"}))


@asynccontextmanager
async def mount(url: str, egress: EgressPolicy) -> AsyncGenerator[MountedServer]:
    config = HttpServerConfig(name="peer", terms=terms(), url=url)
    server = MountedServer(
        config, "client-mcp:peer", lambda _: None, environ=None, egress=egress, timing=QUICK
    )
    server.start()
    try:
        await server.first_attempt()
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def internal_service() -> AsyncGenerator[tuple[str, list[bytes]]]:
    """The address of a service that answers every request with JSON that is no MCP message."""
    requests: list[bytes] = []
    body = f'{{"internal": "{SECRET}"}}'.encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                requests.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(head % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/latest", requests


async def test_a_callers_server_on_this_machine_is_not_connected_to() -> None:
    """Finding 6: an address of a caller leads to no internal service; the reason says what the
    host can allow.
    """
    async with internal_service() as (url, requests), mount(url, EgressPolicy()) as server:
        assert server.fault is not None
        assert "--allow-egress 127.0.0.1" in server.fault
        assert requests == []


async def test_nothing_of_what_answered_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Finding 6: a service that is no MCP server is reported without a word of its answer, in the
    reason and in the log.
    """
    caplog.set_level(logging.DEBUG)
    async with (
        internal_service() as (url, requests),
        mount(url, EgressPolicy.of(["127.0.0.1"])) as server,
    ):
        assert requests, "the host allowed it, so it was connected to"
        assert server.fault is not None
        assert SECRET not in server.fault
    assert SECRET not in caplog.text


async def test_an_allowed_server_works() -> None:
    """The checked connection speaks MCP as any other does."""
    async with web_peer() as web:
        url = f"http://127.0.0.1:{web.port}/mcp"
        async with mount(url, EgressPolicy.of(["127.0.0.0/8"])) as server:
            assert server.fault is None
            assert "peer_add" in server.tools.served


async def test_the_owner_may_mount_a_local_server_and_a_caller_may_not() -> None:
    """An editor on the owner's machine mounts what runs there; for another principal, the egress
    policy of the runtime decides.
    """
    async with web_peer() as web, create_runtime(RuntimeConfig()) as runtime:
        config = client_server("peer", url=f"http://localhost:{web.port}/mcp")
        names: dict[str, bool] = {}
        for who in (OWNER, CALLER):
            opened = await runtime.ask("session.create", {}, who)
            await runtime.service.mount_servers(opened.session_id, [config], who)
            listed = await runtime.ask("tools.list", {"session_id": opened.session_id}, who)
            names[who.name] = any(tool.name == "peer_add" for tool in listed.tools)
    assert names == {"owner": True, "bob": False}
