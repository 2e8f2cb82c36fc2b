"""An MCP client that initialised at one replica is answered by the other."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS
from tests.transports.replicas.two_servers import ServedReplica, TakingTurns, two_servers

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "sample", "version": "1"},
}


def headers(session_id: str | None = None, token: str = OWNERS) -> dict[str, str]:
    named = {} if session_id is None else {"Mcp-Session-Id": session_id}
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2025-06-18",
        **named,
    }


async def ask(
    at: ServedReplica,
    method: str,
    session_id: str | None = None,
    token: str = OWNERS,
    params: Any = None,
) -> httpx2.Response:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return await at.client.post("/mcp", json=message, headers=headers(session_id, token))


async def initialized(at: ServedReplica) -> str:
    answer = await ask(at, "initialize", params=INITIALIZE)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


async def test_the_official_client_does_not_notice_the_balancer(postgres_url: str) -> None:
    """Every request goes to the other server than the one before: all are answered, in one session,
    and none with 404.
    """
    async with two_servers(postgres_url) as (a, b):
        turns = TakingTurns(a.url, b.url)
        async with httpx2.AsyncClient(
            transport=turns, headers={"Authorization": f"Bearer {OWNERS}"}, timeout=PATIENCE
        ) as http:
            transport = streamable_http_client(f"{a.url}/mcp", http_client=http)
            async with asyncio.timeout(PATIENCE), Client(transport, mode="legacy") as client:
                for _ in range(4):
                    await client.list_resources()
                listed = {tool.name for tool in (await client.list_tools()).tools}
        sessions = (await a.runtime.ask("session.list")).sessions

    assert "echo" in listed
    assert {at for _, at, _ in turns.statuses} == {0, 1}
    assert all(status < 300 for method, _, status in turns.statuses if method != "GET")
    assert len(sessions) == 1


async def test_a_client_is_known_with_its_principal_only(postgres_url: str) -> None:
    """The id of a client is worth nothing with another token, at either replica."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        mine = [(await ask(at, "ping", session_id)).status_code for at in (b, a, b)]
        theirs = [(await ask(at, "ping", session_id, CALLERS)).status_code for at in (a, b)]
        after = (await ask(b, "ping", session_id)).status_code
        unknown = [(await ask(b, "ping", name)).status_code for name in ("0" * 32, "a/../b", "x%")]

    assert mine == [200, 200, 200]
    assert theirs == [404, 404]
    assert after == 200
    assert unknown == [404, 404, 404]


async def test_the_answers_name_the_clients_own_id(postgres_url: str) -> None:
    """Whatever a replica calls the client inside, the client hears its own id."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        answer = await ask(b, "ping", session_id)

    assert answer.headers["mcp-session-id"] == session_id


async def test_an_ended_session_is_ended_everywhere(postgres_url: str) -> None:
    """DELETE at one replica: 404 at both, and the stream that is open at the other ends."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        assert (await ask(b, "ping", session_id)).status_code == 200
        listening = a.client.stream("GET", "/mcp", headers=headers(session_id))
        async with asyncio.timeout(PATIENCE), listening as stream:
            assert stream.status_code == 200
            ended = await b.client.delete("/mcp", headers=headers(session_id))
            async for _ in stream.aiter_bytes():
                pass
        after = [(await ask(at, "ping", session_id)).status_code for at in (a, b)]

    assert ended.status_code == 200
    assert after == [404, 404]


async def test_a_client_outlives_the_replica_that_it_initialised_at(postgres_url: str) -> None:
    """What a replica that stops knew of its clients is known to the others."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        first = await ask(a, "tools/list", session_id)
        await a.server.__aexit__(None, None, None)
        await a.runtime.close()
        second = await ask(b, "tools/list", session_id)

    assert first.status_code == second.status_code == 200
    assert "echo" in second.text


async def test_the_log_level_is_the_clients_everywhere(postgres_url: str) -> None:
    """`logging/setLevel` at one replica holds at the other."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        assert (await ask(b, "ping", session_id)).status_code == 200
        level = await ask(a, "logging/setLevel", session_id, params={"level": "error"})
        value = b.store.value(f"mcp/{session_id}")

    assert level.status_code == 200
    assert value is not None
    assert b'"log_level": "error"' in value.body


async def test_an_idle_copy_is_made_again(postgres_url: str) -> None:
    """A replica that has forgotten a client, which went on elsewhere, knows it again."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        assert (await ask(b, "ping", session_id)).status_code == 200
        # As when the copy was idle for too long here: the SDK has ended it.
        endpoint: Any = b.mcp.endpoint
        copy = endpoint._clients._copies[session_id]
        await endpoint._streams._server_instances[copy.session_id].terminate()
        again = await ask(b, "ping", session_id)

    assert again.status_code == 200
