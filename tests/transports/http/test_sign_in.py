"""Signing in to the server with a browser: one-time links, cookies, and who may use them."""

from __future__ import annotations

import asyncio
import logging
import stat
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.store.facts import FakeClock
from tests.transports.http.served_runtime import STREAM
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.access import AccessOptions
from toolcrib.serving.login import Authenticator, Login, LoginFailed
from toolcrib.serving.sign_ins import (
    IDLE_SECONDS,
    LINK_SECONDS,
    SEEN_SECONDS,
    SIGN_IN_SECONDS,
    BrowserClient,
    SignInFile,
    SignIns,
    basis_of,
)
from toolcrib.serving.tokens import Token, TokenFile, Tokens, WatchedTokens
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


async def test_a_sign_in_ends_with_its_token_and_so_do_its_streams(tmp_path: Path) -> None:
    """A revoked token ends the sign-in by it, and the event streams that are open."""
    async with crib_in(tmp_path) as crib:
        issued = crib.tokens.create("alice", ["caller"])
        page = await crib.signed_in(token=issued.token)
        made = await crib.client.post("/v1/sessions", json={}, headers=page)
        path = f"/v1/sessions/{made.json()['session_id']}/events"
        async with crib.client.stream("GET", path, headers=STREAM) as stream:
            assert stream.status_code == 200
            crib.tokens.revoke(issued.record.id)
            async with asyncio.timeout(PATIENCE):
                async for _ in stream.aiter_bytes():
                    pass
        me = await crib.client.get("/v1/me")

    assert me.status_code == 401


async def test_a_sign_out_ends_the_streams_of_the_browser(tmp_path: Path) -> None:
    """An open page of a browser that has signed out hears nothing more."""
    async with crib_in(tmp_path) as crib:
        page = await crib.signed_in()
        made = await crib.client.post("/v1/sessions", json={}, headers=page)
        path = f"/v1/sessions/{made.json()['session_id']}/events"
        async with crib.client.stream("GET", path, headers=STREAM) as stream:
            await crib.client.post("/v1/sign-out", json={}, headers=page)
            async with asyncio.timeout(PATIENCE):
                async for _ in stream.aiter_bytes():
                    pass


async def test_another_owner_token_ends_the_owners_sign_ins(tmp_path: Path) -> None:
    """Whoever replaces the owner's token has thrown out everybody who signed in by it."""
    async with crib_in(tmp_path) as crib:
        await crib.signed_in()
        cookie = next(iter(crib.client.cookies.jar)).value
    (tmp_path / "token").unlink()
    async with crib_in(tmp_path) as crib:
        port = crib.server.url.rpartition(":")[2]
        me = await crib.client.get("/v1/me", headers={"Cookie": f"toolcrib-{port}={cookie}"})

    assert me.status_code == 401


async def test_no_secret_of_a_sign_in_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither code, cookie, token nor CSRF value: not when it works, and not when it fails."""
    caplog.set_level(logging.DEBUG)
    async with crib_in(tmp_path) as crib:
        issued, code = crib.tokens.create("alice", ["caller"]), crib.code()
        page = await crib.signed_in(code=code)
        await crib.sign_in(code=code)
        await crib.sign_in(token=issued.token)
        await crib.sign_in(token=issued.token + "x")
        cookie = next(iter(crib.client.cookies.jar)).value
        await crib.client.post("/v1/sessions", json={}, headers={**page, "Toolcrib-CSRF": "no"})
        await crib.client.get("/v1/me", headers={"Cookie": "toolcrib=ss_wrong"})

    assert "owner has signed in from 127.0.0.1" in caplog.text
    assert "failed login" in caplog.text
    for secret in (code, issued.token, cookie, page["Toolcrib-CSRF"], "ss_wrong"):
        assert secret is not None
        assert secret not in caplog.text


async def test_wrong_codes_are_slowed(tmp_path: Path) -> None:
    """Guessing codes is answered as guessing tokens is: with 429 from the sixth on."""
    async with crib_in(tmp_path) as crib:
        answers = [await crib.sign_in(code="sc_wrong") for _ in range(6)]

    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert answers[-1].headers["retry-after"]


async def test_one_of_code_and_token_signs_in(tmp_path: Path) -> None:
    """Both or none of the two is refused, and a form of another page is no JSON."""
    async with crib_in(tmp_path) as crib:
        neither = await crib.sign_in()
        both = await crib.sign_in(code="a", token="b")
        form = await crib.client.post("/v1/sign-in", data={"code": crib.code()})

    assert [each.status_code for each in (neither, both, form)] == [422, 422, 415]


async def test_a_link_is_made_with_a_token_alone(tmp_path: Path) -> None:
    """It is for the principal of the token; a browser's sign-in makes none, or it would not end."""
    async with crib_in(tmp_path) as crib:
        issued = crib.tokens.create("alice", ["auditor"])
        bearer = {"Authorization": f"Bearer {issued.token}"}
        answer = await crib.client.post("/v1/sign-in-links", json={}, headers=bearer)
        link = answer.json()["url"]
        page = await crib.signed_in(code=link.partition("#code=")[2])
        refused = await crib.client.post("/v1/sign-in-links", json={}, headers=page)
        me = (await crib.client.get("/v1/me")).json()

    assert link.startswith(f"{crib.server.url}/sign-in#code=")
    assert (me["principal"], me["roles"], me["signed_in_by"]) == ("alice", ["auditor"], "token")
    assert refused.status_code == 403


async def test_a_file_that_cannot_be_read_signs_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that others may read, or that is no such file, is worth nothing, and stays."""
    async with crib_in(tmp_path) as crib:
        await crib.signed_in()
        (tmp_path / "sign-ins.json").chmod(0o644)
        me = await crib.client.get("/v1/me")
        again = await crib.sign_in(code="sc_x")

    assert me.status_code == 401
    assert "chmod 600" in caplog.text
    assert again.status_code == 422
    assert "chmod 600" in again.json()["error"]["message"]


class Desk:
    """Sign-ins of a file of tokens, by a clock of the test."""

    def __init__(self, folder: Path, tokens_name: str = "tokens.json") -> None:
        self.clock = FakeClock()
        self.tokens = TokenFile(folder / tokens_name, clock=self.clock)
        self.issued = self.tokens.create("alice", ["caller"], lifetime_seconds=90 * 86_400)
        self.authenticator = Authenticator(
            tokens=Tokens([Token("owner-token-0123456789")]),
            token_file=WatchedTokens(self.tokens),
            clock=self.clock,
        )
        file = SignInFile(folder / "sign-ins.json", clock=self.clock)
        self.sign_ins = SignIns(file, self.authenticator, clock=self.clock)

    async def login(self) -> Login:
        return await self.authenticator.login(self.issued.token.encode())

    async def cookie(self) -> bytes:
        basis = basis_of(await self.login(), self.authenticator)
        return self.sign_ins.open(basis, BrowserClient()).secret.encode()


async def test_a_link_expires(tmp_path: Path) -> None:
    """After ten minutes it signs nobody in; before that it does."""
    desk = Desk(tmp_path)
    basis = basis_of(await desk.login(), desk.authenticator)
    early, late = desk.sign_ins.make_link(basis), desk.sign_ins.make_link(basis)
    desk.clock.now += LINK_SECONDS - 1
    assert desk.sign_ins.exchange(early, BrowserClient()).record.basis.name == "alice"
    desk.clock.now += 1

    with pytest.raises(LoginFailed, match="too old"):
        desk.sign_ins.exchange(late, BrowserClient())


async def test_a_link_ends_with_its_token(tmp_path: Path) -> None:
    """Whoever kept a link of a revoked token has nothing."""
    desk = Desk(tmp_path)
    code = desk.sign_ins.make_link(basis_of(await desk.login(), desk.authenticator))
    desk.tokens.revoke("alice")

    with pytest.raises(LoginFailed):
        desk.sign_ins.exchange(code, BrowserClient())


async def test_a_sign_in_ends_when_nobody_uses_it(tmp_path: Path) -> None:
    """Use keeps it alive, up to its longest life; idleness ends it."""
    desk = Desk(tmp_path)
    used, idle = await desk.cookie(), await desk.cookie()
    login, end = desk.sign_ins.login(used), desk.clock.now + SIGN_IN_SECONDS
    for _ in range(3):
        desk.clock.now += IDLE_SECONDS / 2
        desk.sign_ins.login(used)
    with pytest.raises(LoginFailed, match="sign in again"):
        desk.sign_ins.login(idle)
    assert login.expires_at == end
    while desk.clock.now < end - IDLE_SECONDS / 2:
        desk.clock.now += IDLE_SECONDS / 2
        desk.sign_ins.login(used)
    desk.clock.now = end

    with pytest.raises(LoginFailed, match="sign in again"):
        desk.sign_ins.login(used)
    assert not desk.sign_ins.is_valid(login)


async def test_use_is_written_once_a_minute(tmp_path: Path) -> None:
    """A browser that asks a hundred times a second does not write the file as often."""
    desk, path = Desk(tmp_path), tmp_path / "sign-ins.json"
    cookie, before = await desk.cookie(), path.stat().st_ino
    desk.clock.now += SEEN_SECONDS - 1
    desk.sign_ins.login(cookie)
    assert path.stat().st_ino == before
    desk.clock.now += 1
    desk.sign_ins.login(cookie)

    assert path.stat().st_ino != before
    assert desk.sign_ins.records()[0].seen_at == desk.clock.now


@pytest.mark.parametrize("change", ["roles", "expiry", "rotated"])
async def test_a_sign_in_has_the_rights_of_its_token_now(change: str, tmp_path: Path) -> None:
    """Other roles, an earlier end or a new secret of the token end the sign-in."""
    desk = Desk(tmp_path)
    cookie = await desk.cookie()
    text = desk.tokens.path.read_text()
    match change:
        case "roles":
            desk.tokens.path.write_text(text.replace('"caller"', '"admin"'))
        case "expiry":
            desk.tokens.rotate("alice", grace_seconds=60)
            assert desk.sign_ins.login(cookie)
            desk.clock.now += 60
        case _:
            desk.tokens.rotate("alice")

    with pytest.raises(LoginFailed, match="sign in again"):
        desk.sign_ins.login(cookie)


async def test_servers_of_one_folder_keep_the_entries_of_each_other(tmp_path: Path) -> None:
    """What another server has written is there after a change, also what only it can judge."""
    here, there = Desk(tmp_path), Desk(tmp_path, tokens_name="others.json")
    first = await here.cookie()
    second = await there.cookie()
    here.sign_ins.end("none")

    assert here.sign_ins.login(first).principal.name == "alice"
    assert there.sign_ins.login(second).principal.name == "alice"
    assert len(SignInFile(tmp_path / "sign-ins.json").records()) == 2


async def test_a_principal_has_so_many_sign_ins(tmp_path: Path) -> None:
    """The oldest goes, so that no program that signs in for ever fills the file."""
    desk = Desk(tmp_path)
    basis = basis_of(await desk.login(), desk.authenticator)
    first = (await desk.cookie(),)
    memory = SignIns(SignInFile(None, clock=desk.clock), desk.authenticator, clock=desk.clock)
    oldest = memory.open(basis, BrowserClient())
    for _ in range(100):
        memory.open(basis, BrowserClient())

    assert len(memory.records()) == 100
    assert oldest.record not in memory.records()
    assert desk.sign_ins.login(first[0])


async def test_processes_that_change_the_file_at_once_take_turns(tmp_path: Path) -> None:
    """Of all who use one code at once one wins, and no sign-in of the others is lost."""
    desk = Desk(tmp_path)
    basis = basis_of(await desk.login(), desk.authenticator)
    code, start = desk.sign_ins.make_link(basis), threading.Barrier(8)

    def race() -> bool:
        file = SignInFile(tmp_path / "sign-ins.json", clock=desk.clock)
        own = SignIns(file, desk.authenticator, clock=desk.clock)
        start.wait(PATIENCE)
        own.open(basis, BrowserClient())
        try:
            return own.exchange(code, BrowserClient()).secret != ""
        except LoginFailed:
            return False

    with ThreadPoolExecutor(8) as threads:
        winners = [each.result(PATIENCE) for each in [threads.submit(race) for _ in range(8)]]

    assert winners.count(True) == 1
    assert len(desk.sign_ins.records()) == 9
