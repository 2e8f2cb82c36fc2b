"""Signing in with a real identity server: tokens over every transport, and MCP clients that find
their way by themselves.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conformance.fixture import Bearing, server_of
from tests.helpers.patience import PATIENCE
from tests.node.identity import (
    IdentityServer,
    Key,
    claims_of,
    identity_server,
    sign_in,
)
from tests.node.peers import command, environment, needs_node
from tests.transports.shop import shop
from toolcrib.runtime.runtime import Runtime
from toolcrib.serving.login import Authenticator
from toolcrib.serving.oidc import OidcIssuer
from toolcrib.store.memory import MemoryStore
from toolcrib.transports.http import create_app
from toolcrib.transports.http.server import HttpServer

pytestmark = needs_node
KEY = Key("first")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
BOTH = {"Accept": "application/json, text/event-stream"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True)
class Town:
    """A server, its identity server, and a client without a token."""

    identity: IdentityServer
    runtime: Runtime
    url: str
    client: httpx2.AsyncClient

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    async def rest(self, token: str) -> int:
        return (await self.client.get("/v1/sessions", headers=bearer(token))).status_code

    async def mcp(self, token: str) -> int:
        headers = {**bearer(token), **BOTH}
        return (await self.client.post("/mcp", json=INITIALIZE, headers=headers)).status_code

    async def websocket(self, token: str) -> int:
        try:
            address = f"ws{self.url.removeprefix('http')}/v1/ws"
            async with connect(address, additional_headers=bearer(token)):
                return 200
        except InvalidStatus as error:
            return error.response.status_code

    async def statuses(self, token: str) -> set[int]:
        """What REST, WebSocket and MCP answer."""
        return {await self.rest(token), await self.websocket(token), await self.mcp(token)}


@asynccontextmanager
async def town(**more: Any) -> AsyncGenerator[Town]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    async with identity_server() as identity, shop() as runtime:
        await identity.set_up([KEY], [url, f"{url}/mcp", "https://other.example"])
        issuer = OidcIssuer(
            url=identity.issuer,
            label="town",
            roles={"engineers": ["caller"], "leads": ["approver"], "ops": ["admin"]},
            **more,
        )
        async with (
            HttpServer(runtime, port=port, issuers=[issuer], public_url=url, tokens=None) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
        ):
            yield Town(identity, runtime, url, client)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokens of whoever runs the tests, and no answer is held back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("toolcrib.serving.login.LONGEST_DELAY", 0.0)


async def test_tokens_of_the_issuer_log_in_over_every_transport() -> None:
    """Discovered keys, the resource as the audience, groups as roles: who is in no group that has a
    role is refused, and the roles are those of the groups.
    """
    async with town() as here:
        engineer = await here.identity.token("groups.engineers", here.resource)
        lead = await here.identity.token("groups.leads", here.url)
        nobody = await here.identity.token("groups.nobody", here.resource)
        engineers = await here.statuses(engineer)
        nobodys = await here.statuses(nobody)
        made = await here.client.post("/v1/sessions", json={}, headers=bearer(engineer))
        refused = await here.client.post("/v1/sessions", json={}, headers=bearer(lead))
        session = (await here.client.get("/v1/sessions", headers=bearer(engineer))).json()

    assert engineers == {200}
    assert nobodys == {403}
    assert made.status_code == 201
    assert refused.status_code == 403
    assert session["sessions"][0]["session_id"] == made.json()["session_id"]


async def test_tokens_for_another_server_do_not_log_in() -> None:
    """RFC 8707: one that the same issuer gave for another resource is refused everywhere."""
    async with town() as here:
        other = await here.identity.token("groups.engineers", "https://other.example")

        assert await here.statuses(other) == {401}


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 200),
        ({"exp": -30}, 200),
        ({"exp": -120}, 401),
        ({"nbf": 30}, 200),
        ({"nbf": 120}, 401),
        ({"groups": ["ops"]}, 200),
    ],
)
async def test_times_and_clocks(claims: dict[str, Any], status: int) -> None:
    """Expired and not yet valid, with a minute of skew, by tokens that the issuer's key signed."""
    now = int(time.time())
    times = {name: now + at for name, at in claims.items() if isinstance(at, int)}
    async with town() as here:
        issued = claims_of(here.identity.issuer, here.resource, **{**claims, **times})

        assert await here.statuses(KEY.sign(issued)) == {status}


async def test_forged_tokens_do_not_log_in() -> None:
    """Another key under the same id, and no signature."""
    async with town() as here:
        issued = claims_of(here.identity.issuer, here.resource)
        forged = Key("first").sign(issued)
        unsigned = f"eyJhbGciOiJub25lIn0.{KEY.sign(issued).split('.')[1]}."

        assert await here.statuses(KEY.sign(issued)) == {200}
        assert await here.rest(forged) == 401
        assert await here.rest(unsigned) == 401


async def test_keys_that_rotate_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of the new key logs in at once; one of the old key no longer does, although it was
    let in before.
    """
    monkeypatch.setattr("toolcrib.serving.signing_keys.REFETCH_SECONDS", 0.0)
    async with town() as here:
        before = await here.identity.token("groups.engineers", here.resource)
        assert await here.statuses(before) == {200}
        await here.identity.set_up([Key("second")], [here.resource])
        after = await here.identity.token("groups.engineers", here.resource)

        assert await here.statuses(after) == {200}
        assert await here.statuses(before) == {401}


async def test_an_issuer_that_is_away_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with the reason, until it is back; who is known stays so meanwhile."""
    monkeypatch.setattr("toolcrib.serving.signing_keys.REFETCH_SECONDS", 0.0)
    async with town() as here:
        known = await here.identity.token("groups.engineers", here.resource)
        assert await here.rest(known) == 200
        await here.identity.set_away(True)
        stranger = Key("new").sign(claims_of(here.identity.issuer, here.resource))
        answer = await here.client.get("/v1/sessions", headers=bearer(stranger))

        assert answer.status_code == 503
        assert "cannot be checked now" in answer.json()["error"]["message"]
        assert answer.headers["retry-after"] == "10"
        assert await here.rest(known) == 200


async def test_an_expired_token_ends_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream does not outlive the token."""
    now = [time.time()]
    with_clock = partial(Authenticator, clock=lambda: now[0])
    monkeypatch.setattr("toolcrib.serving.access.Authenticator", with_clock)
    monkeypatch.setattr("toolcrib.serving.auth.CHECK_SECONDS", 0.01)
    async with town() as here:
        token = await here.identity.token("groups.engineers", here.resource)
        address = f"ws{here.url.removeprefix('http')}/v1/ws"
        async with connect(address, additional_headers=bearer(token)) as open_socket:
            await open_socket.send('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
            assert "result" in str(await open_socket.recv())
            now[0] += 3_600
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(ConnectionClosed):
                    await open_socket.recv()


async def test_a_missing_scope_is_asked_for() -> None:
    """403 with `insufficient_scope` and the scope, so that a client can step up."""
    async with town(required_scopes=["mcp"]) as here:
        without = KEY.sign(claims_of(here.identity.issuer, here.resource))
        with_scope = await here.identity.token("groups.engineers", here.resource)
        answer = await here.client.post(
            "/mcp", json=INITIALIZE, headers={**bearer(without), **BOTH}
        )

        assert await here.statuses(with_scope) == {200}
    challenge = answer.headers["www-authenticate"]
    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="mcp"' in challenge


async def test_a_client_finds_where_to_sign_in() -> None:
    """RFC 9728: the challenge leads to the metadata, which needs no token and leads to the issuer;
    nothing else is open.
    """
    async with town() as here:
        refused = await here.client.post("/mcp", json=INITIALIZE, headers=BOTH)
        challenge = refused.headers["www-authenticate"]
        (address,) = re.findall(r'resource_metadata="([^"]+)"', challenge)
        metadata = (await here.client.get(address)).json()
        root = (await here.client.get("/.well-known/oauth-protected-resource")).json()
        rebound = await here.client.get(address, headers={"Host": "rebound.example"})
        posted = await here.client.post(address)

    assert refused.status_code == 401
    assert address == f"{here.url}/.well-known/oauth-protected-resource/mcp"
    assert metadata["resource"] == here.resource
    assert metadata["authorization_servers"] == [here.identity.issuer]
    assert root["resource"] == here.url
    assert rebound.status_code == 403
    assert posted.status_code == 401


async def test_the_inspector_signs_in(tmp_path: Path) -> None:
    """MCP Inspector, with nothing but the address: it registers, opens the page where the person
    signs in, exchanges the code (PKCE, resource indicator), and lists and calls the tools.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        callback = f"http://127.0.0.1:{free.getsockname()[1]}/oauth/callback"
    async with town(required_scopes=["mcp"]) as here:
        options = ("--tool-name", "greet", "--tool-args-json", '{"name": "Ada"}')
        process = await asyncio.create_subprocess_exec(
            command("mcp-inspector"),
            *("--cli", here.resource, "--callback-url", callback),
            *("--format", "json", "--method", "tools/call", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(
                HOME=str(tmp_path),
                MCP_INSPECTOR_SECRET_STORE="memory",
                MCP_AUTO_OPEN_ENABLED="true",
                PATH=f"{_without_browser(tmp_path)}:{environment()['PATH']}",
            ),
        )
        assert process.stderr is not None
        said, address = "", ""
        async with asyncio.timeout(PATIENCE):
            while not address and (line := (await process.stderr.readline()).decode()):
                said += line
                address = "".join(re.findall(r"http://\S+/auth\?\S+", line))
            assert address, said
            landed = await sign_in(address)
            out, err = await process.communicate()

    assert process.returncode == 0, said + err.decode()
    assert landed.startswith(callback)
    assert "code_challenge_method=S256" in address
    assert f"resource={quote(here.resource, safe='')}" in address
    assert json.loads(out)["result"]["content"] == [{"type": "text", "text": "Hello, Ada!"}]


def _without_browser(folder: Path) -> Path:
    """A folder with an `xdg-open` that opens nothing: the test is the person with the browser."""
    (folder / "xdg-open").write_text("#!/bin/sh\nexit 0\n")
    (folder / "xdg-open").chmod(0o755)
    return folder


class _Storage:
    """Keeps what the SDK's client is given."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


async def test_the_sdks_client_signs_in() -> None:
    """The official Python SDK's OAuth client finds, registers, signs in, and lists the tools."""
    callback = "http://127.0.0.1:1/callback"
    results: list[AuthorizationCodeResult] = []

    async def person(address: str) -> None:
        query = parse_qs(urlsplit(await sign_in(address, callback=callback)).query)
        results.append(AuthorizationCodeResult(**{name: query[name][0] for name in query}))

    async def answer() -> AuthorizationCodeResult:
        return results.pop()

    async with town() as here:
        metadata = OAuthClientMetadata.model_validate({"redirect_uris": [callback]})
        provider = OAuthClientProvider(here.resource, metadata, _Storage(), person, answer)
        async with httpx2.AsyncClient(auth=provider, timeout=PATIENCE) as http:
            door = streamable_http_client(here.resource, http_client=http)
            async with Client(door) as client:
                names = [each.name for each in (await client.list_tools()).tools]

    assert "greet" in names


def _suite(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [command("conformance"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_suite_has_no_scenarios_for_signing_in_at_servers() -> None:
    """Its auth scenarios are for clients and for authorization servers. When a new version brings
    some for servers, this fails, and they belong here.
    """
    _, listed = _suite("list", "--server")
    names = re.findall(r"^  - (\S+)", listed, re.MULTILINE)

    assert "server-initialize" in names
    assert [name for name in names if re.search(r"auth|token|resource-metadata", name)] == []


async def test_the_identity_server_is_what_the_suite_asks_for() -> None:
    """The official suite's scenario for the metadata of authorization servers passes, so what
    clients do here they do with a server like those in use.
    """
    async with town() as here:
        status, told = await asyncio.to_thread(
            _suite,
            *("authorization", "--url", here.identity.issuer),
            *("--scenario", "authorization-server-metadata-endpoint"),
        )

    assert status == 0, told


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_suite_passes_behind_a_login(revision: str, tmp_path: Path) -> None:
    """Every scenario that a revision requires of servers, with each request logged in by a JWT of
    the identity server: the login changes nothing of the protocol.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = server_of(MemoryStore())
    async with identity_server() as identity, server.runtime:
        await identity.set_up([KEY], [f"{url}/mcp"])
        issuer = OidcIssuer(url=identity.issuer, roles={"ops": ["admin"]})
        app = create_app(server.runtime, issuers=[issuer], public_url=url, mcp=server)
        token = await identity.token("groups.ops.leads", f"{url}/mcp")
        config = uvicorn.Config(Bearing(app, token), lifespan="off", log_level="warning")
        serving = uvicorn.Server(config)
        task = asyncio.create_task(serving.serve(sockets=[listening]))
        status, told = await asyncio.to_thread(
            _suite, "server", "--url", f"{url}/mcp", "--requirements", revision
        )
        serving.should_exit = True
        await task

    assert status == 0, told
