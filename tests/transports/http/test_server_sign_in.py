"""Signing in to a mounted MCP server with a browser, by the link that a call names."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import free_port
from tests.mcp_client.oauth_town import KEY, NAME, Town, browse, town, until
from tests.node.identity import CLIENT_SECRET
from tests.node.peers import needs_node
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.serving.oidc import OidcIssuer
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http.server import HttpServer

pytestmark = [pytest.mark.wire, needs_node]

ANN, BEN = "token-of-ann-0123456789", "token-of-ben-0123456789"
OWNER = "token-of-owner-0123456789"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokens of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@asynccontextmanager
async def gateway(place: Town, **auth: Any) -> AsyncGenerator[tuple[Runtime, str]]:
    people = {ANN: "ann", BEN: "ben"}
    callers = [
        Token(token, Principal(name, frozenset({"caller"}))) for token, name in people.items()
    ]
    tokens = Tokens([Token(OWNER), *callers])
    async with (
        place.runtime(**auth) as runtime,
        HttpServer(runtime, port=0, tokens=tokens) as server,
    ):
        yield runtime, server.url


@asynccontextmanager
async def browser_of(url: str, token: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A browser that is signed in at the console."""
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as browser:
        answer = await browser.post("/v1/sign-in", json={"token": token}, headers={"origin": url})
        assert answer.status_code == 200, answer.text
        yield browser


async def session_of(url: str, token: str) -> str:
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        answer = await client.post("/v1/sessions", json={}, headers=bearer(token))
        return answer.json()["session_id"]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def get(url: str, path: str, token: str) -> Any:
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        return (await client.get(path, headers=bearer(token))).json()


async def call(url: str, session_id: str, token: str, tool: str = "whoami") -> Any:
    path = f"/v1/sessions/{session_id}/tools/{NAME}_{tool}/call"
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        return (await client.post(path, json={"arguments": {}}, headers=bearer(token))).json()


async def test_a_link_leads_a_person_through_the_sign_in() -> None:
    """The reason names a link without a secret; its page leads a browser that is signed in here to
    the authorization server and back, and then the call works.
    """
    async with town() as place, gateway(place) as (runtime, url):
        session_id = await session_of(url, ANN)
        listed = await get(url, f"/v1/sessions/{session_id}/tools", ANN)
        reason = listed["unavailable"][f"mcp:{NAME}"]
        [link] = re.findall(r"http\S+", reason)
        assert link == f"{url}/v1/servers/sign-in?server={NAME}"

        async with browser_of(url, ANN) as browser:
            page = await browser.get(link)
            [start] = re.findall(r'class="go" href="([^"]+)"', page.text)
            back = await browse(
                f"{url}{start}",
                "ann-of-notes",
                until=f"{url}/v1/servers/sign-in/callback",
                client=browser,
            )
            done = await browser.get(back)
            again = await browser.get(back)

        assert done.status_code == 200
        assert f"Signed in to {NAME}" in done.text
        assert again.status_code == 400
        [server] = runtime.service.catalog.sessions.servers.personal.of("ann")
        await until(lambda: server.fault is None)
        assert (await call(url, session_id, ANN))["value"] == {"result": "ann-of-notes"}


async def test_another_browser_cannot_finish_a_sign_in() -> None:
    """Whoever begins a sign-in cannot have somebody else finish it: the account would be theirs."""
    async with town() as place, gateway(place) as (runtime, url):
        start = f"{url}/v1/servers/sign-in/start?server={NAME}"
        callback = f"{url}/v1/servers/sign-in/callback"
        async with browser_of(url, BEN) as bens, browser_of(url, ANN) as anns:
            back = await browse(start, "ann-of-notes", until=callback, client=bens)
            stolen = await anns.get(back)

        assert stolen.status_code == 400
        assert "did not begin" in stolen.text
        assert await runtime.gateway.credentials.list() == []


async def test_only_those_who_signed_in_here_can_begin() -> None:
    """The way to the authorization server needs a principal, and a credential that all share needs
    an admin.
    """
    async with town() as place, gateway(place, per="shared") as (_, url):
        path = f"/v1/servers/sign-in/start?server={NAME}"
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
            assert (await client.get(path)).status_code == 401
            assert (await client.get(path, headers=bearer(ANN))).status_code == 403
            assert (await client.get(path, headers=bearer(OWNER))).status_code == 303
            unknown = await client.get("/v1/servers/sign-in?server=<b>")
            assert unknown.status_code == 404


async def test_a_callers_own_token_is_exchanged() -> None:
    """RFC 8693: the server gets a token of the caller for itself, never the caller's own one, and
    nothing of it is kept in the store.
    """
    async with town() as place:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        await place.identity.set_up([KEY], [place.resource.url, f"{url}/mcp"])
        issuer = OidcIssuer(url=place.identity.issuer, label="town", default_roles=["caller"])
        auth = {"grant": "token_exchange", "client_id": "gateway", "client_secret": CLIENT_SECRET}
        async with (
            place.runtime(**auth) as runtime,
            HttpServer(runtime, port=port, issuers=[issuer], public_url=url, tokens=None),
        ):
            own = await place.identity.token("groups.leads", f"{url}/mcp")
            session_id = await session_of(url, own)
            result = await call(url, session_id, own)
            repeated = await call(url, session_id, own, "repeat_token")
            kept = await runtime.gateway.credentials.list()

    assert result["value"] == {"result": "groups.leads"}
    assert own not in place.resource.seen
    assert repeated["value"] == {"result": "it was [secret], was it not?"}
    assert kept == []
