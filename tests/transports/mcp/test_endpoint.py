"""MCP over Streamable HTTP: who comes in, and how streams end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS, READERS, TOKENS, Served, served
from tests.transports.mcp.connected_client import ERAS, HANDSHAKE, STATELESS, facts_of, text_of
from tests.transports.shop import shop
from toolcrib.runtime.principal import Principal
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http import create_app
from toolcrib.transports.http.server import HttpServer
from toolcrib.transports.mcp import McpOptions, McpServer

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
BEGIN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
MODERN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
MODERN_HEADERS = {**JSON, "Mcp-Protocol-Version": STATELESS, "Mcp-Method": "tools/list"}


@asynccontextmanager
async def mcp_client(
    server: HttpServer, era: str, token: str = OWNERS, **more: Any
) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=era, **more) as client:
            yield client


class TestTheGate:
    @pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Authorization": ""}, 401),
            ({"Authorization": "Bearer of-somebody-else-entirely"}, 401),
            ({"Host": "rebound.example.org"}, 403),
            ({"Origin": "https://elsewhere.example.org"}, 403),
        ],
    )
    async def test_strangers_are_refused_on_every_verb(
        self, verb: str, headers: dict[str, str], status: int
    ) -> None:
        """R46: a missing or wrong token, a rebound name, a page of elsewhere: all stop there."""
        async with served() as bench:
            answer = await bench.client.request(
                verb, "/mcp", headers={**JSON, **headers}, content=json.dumps(BEGIN)
            )

        assert answer.status_code == status
        assert "mcp-session-id" not in answer.headers

    @pytest.mark.parametrize(
        ("begin", "headers"), [(BEGIN, JSON), (MODERN, MODERN_HEADERS)], ids=ERAS
    )
    async def test_who_has_a_token_comes_in(self, begin: Any, headers: dict[str, str]) -> None:
        """The same requests go through with it; so the refusals above are the gate's."""
        async with served() as bench:
            answer = await bench.client.post("/mcp", headers=headers, json=begin)

        assert answer.status_code == 200, answer.text

    async def test_nobody_gets_into_the_session_of_somebody_else(self) -> None:
        """The id of a session is no token: another principal is told that there is none."""
        async with served() as bench:
            begun = await bench.client.post("/mcp", headers=JSON, json=BEGIN)
            session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            mine = await bench.client.post("/mcp", headers={**JSON, **session}, json=ping)
            theirs = await bench.client.post(
                "/mcp", headers={**JSON, **session, **bench.as_(CALLERS)}, json=ping
            )

        assert (mine.status_code, theirs.status_code) == (200, 404)

    async def test_one_name_may_have_tokens_that_may_less(self) -> None:
        """R46: what a token may do is its own, also where another of the same name began."""
        tokens = Tokens(
            [
                Token(OWNERS, Principal("ada", frozenset({"caller"}))),
                Token(READERS, Principal("ada", frozenset({"auditor"}))),
            ]
        )
        async with shop() as runtime, HttpServer(runtime, port=0, tokens=tokens) as server:
            async with mcp_client(server, STATELESS, OWNERS) as may:
                assert not (await may.call_tool("greet", {"name": "Ada"})).is_error
            async with mcp_client(server, STATELESS, READERS) as may_not:
                with pytest.raises(MCPError, match="role 'caller'"):
                    await may_not.call_tool("greet", {"name": "Ada"})
            async with httpx2.AsyncClient(base_url=server.url) as http:
                owner, reader = ({"Authorization": f"Bearer {each}"} for each in (OWNERS, READERS))
                begun = await http.post("/mcp", headers={**JSON, **owner}, json=BEGIN)
                session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
                ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
                other = await http.post("/mcp", headers={**JSON, **session, **reader}, json=ping)

        assert other.status_code == 404

    async def test_a_page_that_is_allowed_can_read_the_session(self) -> None:
        """A browser shows a page only the headers that it is told to."""
        origin = "https://app.example.org"
        async with served(origins=(origin,)) as bench:
            answer = await bench.client.post("/mcp", headers={**JSON, "Origin": origin}, json=BEGIN)

        assert answer.headers["access-control-allow-origin"] == origin
        assert "mcp-session-id" in answer.headers["access-control-expose-headers"]

    @pytest.mark.parametrize(
        ("begin", "headers"), [(BEGIN, JSON), (MODERN, MODERN_HEADERS)], ids=ERAS
    )
    async def test_a_body_that_is_too_large_is_refused(
        self, begin: Any, headers: dict[str, str]
    ) -> None:
        """The cap of the runtime holds for MCP too."""
        async with served(max_payload_bytes=2_000) as bench:
            large = {**begin, "params": {**begin["params"], "more": "x" * 3_000}}
            answer = await bench.client.post("/mcp", headers=headers, json=large)

        assert answer.status_code == 413


class TestScopes:
    @pytest.mark.parametrize("era", ERAS)
    async def test_who_may_only_read_has_no_session_and_so_no_tools(self, era: str) -> None:
        """R46: the token's roles hold, and to open a session takes `caller`."""
        async with served() as bench, mcp_client(bench.server, era, READERS) as client:
            with pytest.raises(MCPError, match="role 'caller'"):
                await client.list_tools()
            with pytest.raises(MCPError, match="role 'caller'"):
                await client.call_tool("echo", {"text": "x"})

        assert bench.gates.calls == []

    @pytest.mark.parametrize("era", ERAS)
    async def test_a_caller_cannot_approve_its_own_call(self, era: str) -> None:
        """R42: a client that answers the form by itself gets nothing run."""

        async def eager(context: Any, params: Any) -> Any:
            raise AssertionError("it was asked")

        async with (
            served() as bench,
            mcp_client(bench.server, era, CALLERS, elicitation_callback=eager) as client,
        ):
            result = await client.call_tool("careful", {"text": "x"})

        assert facts_of(result)["status"] == "waiting"
        assert bench.gates.calls == []

    @pytest.mark.parametrize("era", ERAS)
    async def test_each_principal_has_its_own_session(self, era: str) -> None:
        """Whoever shares a server does not share what waits in it."""
        async with (
            served() as bench,
            mcp_client(bench.server, era, OWNERS) as owner,
            mcp_client(bench.server, era, CALLERS) as caller,
        ):
            mine = facts_of(await owner.call_tool("careful", {"text": "x"}))
            theirs = facts_of(await caller.call_tool("careful", {"text": "x"}))

        assert mine["call_id"] != theirs["call_id"]


class TestStreams:
    @pytest.mark.parametrize("era", ERAS)
    async def test_progress_comes_on_the_stream_of_its_call(self, era: str) -> None:
        """R51: whoever gave a token hears of it, before the result."""
        heard: list[Any] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        async with (
            shop() as runtime,
            HttpServer(runtime, port=0, tokens=TOKENS) as server,
            mcp_client(server, era) as client,
        ):
            result = await client.call_tool("stepping", {}, progress_callback=hear)

        assert text_of(result) == "stepped"
        assert heard == [(1, 2, "half of it")]

    async def test_a_closed_stream_cancels_a_stateless_call(self) -> None:
        """In that protocol, to hang up is to cancel: the ledger has the call as cancelled."""
        async with served() as bench, mcp_client(bench.server, STATELESS) as client:
            asking = asyncio.ensure_future(client.call_tool("held_back", {"text": "x"}))
            await bench.gates.entered.wait()
            asking.cancel()
            ended = await _ended(bench)

        assert ended["failure"]["kind"] == "cancelled"

    @pytest.mark.parametrize("era", ERAS)
    async def test_closing_lets_calls_end(self, era: str) -> None:
        """R46: a server that is stopped answers what it has begun."""
        async with served(drain_seconds=10.0) as bench, mcp_client(bench.server, era) as client:
            # The client wants to know the tool's schema, and cannot ask for it afterwards.
            await client.list_tools()
            asking = asyncio.ensure_future(client.call_tool("held_back", {"text": "kept"}))
            await bench.gates.entered.wait()
            bench.server.stop()
            bench.gates.open.set()
            result = await asking

        assert text_of(result) == "kept"

    async def test_closing_ends_who_listens(self) -> None:
        """Streams that would never end by themselves do not hold up the server."""
        async with (
            served() as bench,
            mcp_client(bench.server, STATELESS) as client,
            client.listen(tools_list_changed=True) as changes,
        ):
            bench.server.stop()
            left = [each async for each in changes]

        assert left == []

    async def test_a_session_may_be_named(self) -> None:
        """The header has MCP work in a session that REST, or another client, works in too."""
        async with served() as bench:
            await bench.session("shared")
            headers = {"Authorization": f"Bearer {OWNERS}", "Toolcrib-Session": "shared"}
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
                transport = streamable_http_client(f"{bench.server.url}/mcp", http_client=http)
                async with Client(transport, mode=HANDSHAKE) as client:
                    await client.call_tool("echo", {"text": "x"})
            ended = await _ended(bench, "shared")

        assert ended["transport"] == "mcp"

    async def test_the_application_may_be_served_by_something_else(self) -> None:
        """Behind the same gate, and ended by whoever serves it."""
        async with shop() as runtime:
            mine = McpServer(runtime)
            transport = httpx2.ASGITransport(create_app(runtime, tokens=TOKENS, mcp=mine))
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                stranger = await client.post("/mcp", headers=MODERN_HEADERS, json=MODERN)
                headers = {**MODERN_HEADERS, "Authorization": f"Bearer {OWNERS}"}
                known = await client.post("/mcp", headers=headers, json=MODERN)
                await mine.close()
                closed = await client.post("/mcp", headers=headers, json=MODERN)

        assert [each.status_code for each in (stranger, known, closed)] == [401, 200, 503]

    async def test_the_host_may_bring_a_server_of_its_own(self) -> None:
        """What was set up in code is what answers at `/mcp`."""
        async with shop() as runtime:
            mine = McpServer(runtime, McpOptions(name="the shop", instructions="Be brief."))
            async with (
                HttpServer(runtime, port=0, tokens=TOKENS, mcp=mine) as server,
                mcp_client(server, HANDSHAKE) as client,
            ):
                told = client.server_info, client.instructions

        assert told[0] is not None
        assert (told[0].name, told[1]) == ("the shop", "Be brief.")


async def _ended(bench: Served, session_id: str = "") -> Any:
    if not session_id:
        (session,) = (await bench.runtime.ask("session.list")).sessions
        session_id = session.session_id
    reader = bench.runtime.service.follow(session_id)
    try:
        async for event in reader:
            if event.kind == "tool.invoked":
                return event.data
    finally:
        reader.close()
    raise AssertionError("the session ended")
