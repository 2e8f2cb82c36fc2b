"""Signing in to the server with a browser: one-time links, cookies, and who may use them."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.access import AccessOptions
from toolcrib.serving.tokens import TokenFile
from toolcrib.transports.http.server import HttpServer

EVIL = "https://evil.example"


@dataclass(frozen=True)
class Crib:
    """A server with the files of its credentials in one folder."""

    server: HttpServer
    folder: Path
    client: httpx2.AsyncClient

    @property
    def tokens(self) -> TokenFile:
        return TokenFile(self.folder / "tokens.json")

    @property
    def origin(self) -> dict[str, str]:
        return {"Origin": self.server.url}

    def code(self) -> str:
        return self.server.sign_in_link().partition("#code=")[2]

    async def sign_in(self, **body: Any) -> httpx2.Response:
        return await self.client.post("/v1/sign-in", json=body, headers=self.origin)

    async def signed_in(self, **body: Any) -> dict[str, str]:
        """Sign in; the headers of a page that may change something."""
        answer = await self.sign_in(**(body or {"code": self.code()}))
        assert answer.status_code == 200, answer.text
        return {**self.origin, "Toolcrib-CSRF": answer.json()["csrf"]}


@asynccontextmanager
async def crib_in(folder: Path, **options: Unpack[AccessOptions]) -> AsyncGenerator[Crib]:
    files: AccessOptions = {"token_file": folder / "token", "tokens_file": folder / "tokens.json"}
    async with (
        create_runtime() as runtime,
        HttpServer(runtime, port=0, **{**files, **options}) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        yield Crib(server, folder, client)


async def test_a_link_signs_in_its_principal_once(tmp_path: Path) -> None:
    """The code of a link is exchanged for a cookie; the second who tries is refused."""
    async with crib_in(tmp_path) as crib:
        code = crib.code()
        first = await crib.sign_in(code=code)
        second = await crib.sign_in(code=code)
        me = await crib.client.get("/v1/me")

    assert (first.status_code, second.status_code) == (200, 401)
    assert "used already" in second.json()["error"]["message"]
    facts = me.json()
    assert facts == first.json()
    assert facts["principal"] == "owner"
    assert (facts["credential"], facts["signed_in_by"]) == ("sign_in", "owner")


async def test_of_two_exchanges_at_once_one_wins(tmp_path: Path) -> None:
    """The race for a code has one winner, whatever server of the folder is asked."""
    async with crib_in(tmp_path) as crib, crib_in(tmp_path) as other:
        code = crib.code()
        answers = await asyncio.gather(
            *(each.sign_in(code=code) for each in (crib, other) for _ in range(3))
        )

    assert sorted(answer.status_code for answer in answers) == [200, *[401] * 5]


async def test_the_cookie_is_for_this_server_and_no_script(tmp_path: Path) -> None:
    """It is http-only, strict, and on plain http named for its port."""
    async with crib_in(tmp_path) as crib:
        answer = await crib.sign_in(code=crib.code())
        port = crib.server.url.rpartition(":")[2]

    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"toolcrib-{port}=ss_")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
    assert "Secure" not in flags
    assert answer.headers["cache-control"] == "no-store"


async def test_under_https_the_cookie_is_secure(tmp_path: Path) -> None:
    """Behind the public address it has the prefix that no other host of the domain can set."""
    async with crib_in(tmp_path, public_url="https://crib.example") as crib:
        page = {"Host": "crib.example", "Origin": "https://crib.example"}
        code = crib.server.sign_in_link().partition("#code=")[2]
        answer = await crib.client.post("/v1/sign-in", json={"code": code}, headers=page)
        name, *flags = answer.headers["set-cookie"].split("; ")
        me = await crib.client.get("/v1/me", headers={**page, "Cookie": name})
        here = await crib.client.get("/v1/me", headers={"Cookie": name})

    assert name.startswith("__Host-toolcrib=ss_")
    assert "Secure" in flags
    assert (me.status_code, here.status_code) == (200, 401)


async def test_a_change_needs_the_csrf_header(tmp_path: Path) -> None:
    """With the cookie alone nothing is changed; reading needs no header."""
    async with crib_in(tmp_path) as crib:
        page = await crib.signed_in()
        without = await crib.client.post("/v1/sessions", json={}, headers=crib.origin)
        wrong = await crib.client.post(
            "/v1/sessions", json={}, headers={**page, "Toolcrib-CSRF": page["Toolcrib-CSRF"][:-1]}
        )
        no_origin = await crib.client.post(
            "/v1/sessions", json={}, headers={"Toolcrib-CSRF": page["Toolcrib-CSRF"]}
        )
        listed = await crib.client.get("/v1/sessions")
        right = await crib.client.post("/v1/sessions", json={}, headers=page)

    assert [each.status_code for each in (without, wrong, no_origin)] == [403, 403, 403]
    assert listed.json()["sessions"] == []
    assert right.status_code == 201


@pytest.mark.parametrize(
    "headers",
    [{"Origin": EVIL}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
    ids=["foreign origin", "other site", "other origin of the site"],
)
async def test_other_pages_cannot_use_the_cookie(headers: dict[str, str], tmp_path: Path) -> None:
    """Not even pages whose origin is allowed to use tokens, and not even to read."""
    async with crib_in(tmp_path, allowed_origins=[EVIL]) as crib:
        page = await crib.signed_in()
        read = await crib.client.get("/v1/sessions", headers=headers)
        written = await crib.client.post("/v1/sessions", json={}, headers={**page, **headers})
        signed_in = await crib.client.post(
            "/v1/sign-in", json={"code": crib.code()}, headers=headers
        )

    assert [each.status_code for each in (read, written, signed_in)] == [403, 403, 403]


async def test_the_cookie_is_taken_on_v1_over_http_alone(tmp_path: Path) -> None:
    """MCP and the WebSocket want a token."""
    async with crib_in(tmp_path) as crib:
        page = await crib.signed_in()
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        socket = await crib.client.get("/v1/ws", headers={**crib.origin, **upgrade})
        mcp = await crib.client.post("/mcp", json={}, headers=page)

    assert (socket.status_code, mcp.status_code) == (401, 401)


async def test_a_token_beats_the_cookie(tmp_path: Path) -> None:
    """A request with both is that of the token, and needs no CSRF header."""
    async with crib_in(tmp_path) as crib:
        issued = crib.tokens.create("alice", ["caller"])
        await crib.signed_in()
        bearer = {"Authorization": f"Bearer {issued.token}"}
        me = (await crib.client.get("/v1/me", headers=bearer)).json()
        made = await crib.client.post("/v1/sessions", json={}, headers=bearer)
        wrong = await crib.client.get(
            "/v1/me", headers={"Authorization": "Bearer wrong-token-0123"}
        )

    assert (me["principal"], me["credential"], me["csrf"]) == ("alice", "token", None)
    assert made.status_code == 201
    assert wrong.status_code == 401


async def test_sign_ins_survive_a_restart_as_digests(tmp_path: Path) -> None:
    """A new server of the folder knows the cookie; the file has no secret and is private."""
    async with crib_in(tmp_path) as crib:
        page = await crib.signed_in()
        cookie = next(iter(crib.client.cookies.jar))
        code = crib.code()
    path = tmp_path / "sign-ins.json"
    text = path.read_text()
    async with crib_in(tmp_path) as crib:
        port = crib.server.url.rpartition(":")[2]
        me = await crib.client.get("/v1/me", headers={"Cookie": f"toolcrib-{port}={cookie.value}"})

    assert me.json()["csrf"] == page["Toolcrib-CSRF"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cookie.value is not None
    assert cookie.value not in text
    assert code not in text


async def test_sign_out_ends_the_sign_in(tmp_path: Path) -> None:
    """The cookie is removed, and worth nothing to whoever has kept it."""
    async with crib_in(tmp_path) as crib:
        page = await crib.signed_in()
        cookie = next(iter(crib.client.cookies.jar))
        answer = await crib.client.post("/v1/sign-out", json={}, headers=page)
        me = await crib.client.get("/v1/me", headers={"Cookie": f"{cookie.name}={cookie.value}"})

    assert answer.status_code == 200
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert me.status_code == 401
    assert "sign in again" in me.json()["error"]["message"]


async def test_a_call_from_the_console_says_so_in_the_record(tmp_path: Path) -> None:
    """An operator call is told from the call of a program by its transport, which no client can
    claim: it is that of a sign-in.
    """
    async with crib_in(tmp_path) as crib:
        headers = await crib.signed_in()
        token = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
        for credential in (headers, token):
            session = await crib.client.post("/v1/sessions", json={}, headers=credential)
            path = f"/v1/sessions/{session.json()['session_id']}/tools/none/call"
            called = await crib.client.post(path, json={}, headers=credential)
            assert called.status_code == 200, called.text
        calls = (await crib.client.get("/v1/calls", headers=token)).json()["calls"]

    assert [call["transport"] for call in calls] == ["http", "console"]
