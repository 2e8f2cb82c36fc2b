"""Logging in over every transport of the HTTP server: slowed, ended, proxied, and never logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS, STREAM, TOKENS
from toolcrib.logs import redact_logs, without_credentials
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.access import AccessOptions
from toolcrib.serving.tokens import IssuedToken, TokenFile, new_token
from toolcrib.transports.http.server import HttpServer

WRONG = "wrong-token-0123456789"
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
class Crib:
    """A server with a file of tokens."""

    url: str
    tokens: TokenFile
    client: httpx2.AsyncClient

    def issue(self, *roles: Any) -> IssuedToken:
        return self.tokens.create("alice", roles or ("caller",))

    async def socket(self, token: str, **options: Any) -> ClientConnection:
        return await connect(
            f"ws{self.url.removeprefix('http')}/v1/ws", additional_headers=bearer(token), **options
        )


@asynccontextmanager
async def crib_at(path: Path, **options: Unpack[AccessOptions]) -> AsyncGenerator[Crib]:
    file = TokenFile(path / "tokens.json")
    access: AccessOptions = {"tokens": TOKENS, "tokens_file": file.path, **options}
    async with (
        create_runtime() as runtime,
        HttpServer(runtime, port=0, **access) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        yield Crib(server.url, file, client)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits: answers are not held back, and open streams are checked at once."""
    monkeypatch.setattr("toolcrib.serving.login.LONGEST_DELAY", 0.0)
    monkeypatch.setattr("toolcrib.serving.auth.CHECK_SECONDS", 0.01)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", ["/v1/sessions", "/mcp", "/v1/ws"])
async def test_wrong_tokens_are_slowed_and_valid_ones_are_not(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding 27: guesses over REST, MCP and WebSocket are soon answered 429 with Retry-After and
    are in the log; from the same address a valid token gets in at once.
    """
    async with crib_at(tmp_path) as crib:

        async def status(token: str) -> tuple[int, str | None]:
            if path == "/v1/ws":
                try:
                    await (await crib.socket(token)).close()
                except InvalidStatus as error:
                    headers = error.response.headers
                    return error.response.status_code, headers.get("Retry-After")
                return 200, None
            verb = "POST" if path == "/mcp" else "GET"
            body = INITIALIZE if path == "/mcp" else None
            headers = {**bearer(token), **BOTH}
            answer = await crib.client.request(verb, path, headers=headers, json=body)
            return answer.status_code, answer.headers.get("retry-after")

        guesses = [await status(WRONG) for _ in range(20)]
        issued = crib.issue()
        known = [await status(issued.token), await status(OWNERS), await status(WRONG)]

    assert guesses[:5] == [(401, None)] * 5
    assert [code for code, _ in guesses[5:]] == [429] * 15
    assert guesses[5][1] == "1"
    assert guesses[-1][1] == "60"
    assert known == [(200, None), (200, None), (429, "60")]
    assert "failed login over" in caplog.text
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert "127.0.0.1" in caplog.text
    assert WRONG not in caplog.text


@pytest.mark.usefixtures("quick")
async def test_asking_without_a_token_is_no_guess(tmp_path: Path) -> None:
    """A client that wants to know where to sign in is always told."""
    async with crib_at(tmp_path) as crib:
        answers = [await crib.client.get("/v1/sessions") for _ in range(20)]

    assert {answer.status_code for answer in answers} == {401}
    assert answers[0].headers["www-authenticate"] == "Bearer"


@pytest.mark.usefixtures("quick")
async def test_a_revoked_token_ends_its_websocket(tmp_path: Path) -> None:
    """The socket is closed with 1008 within a second or so; another token's socket stays."""
    async with crib_at(tmp_path) as crib:
        issued, other = crib.issue(), crib.issue()
        socket, kept = await crib.socket(issued.token), await crib.socket(other.token)
        crib.tokens.revoke(issued.record.id)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
        await kept.send('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        answer = await kept.recv()
        await kept.close()

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert '"result"' in str(answer)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("transport", ["sse", "mcp", "mcp by a wildcard"])
async def test_a_revoked_token_ends_its_event_streams(transport: str, tmp_path: Path) -> None:
    """The events of a session, and the stream of an MCP session."""
    async with crib_at(tmp_path) as crib:
        issued = crib.issue()
        headers = bearer(issued.token)
        if transport == "sse":
            made = await crib.client.post("/v1/sessions", json={}, headers=headers)
            assert made.status_code == 201, made.text
            path, more = f"/v1/sessions/{made.json()['session_id']}/events", STREAM
        else:
            begun = await crib.client.post("/mcp", json=INITIALIZE, headers={**headers, **BOTH})
            path = "/mcp"
            accept = STREAM if transport == "mcp" else {"Accept": "*/*"}
            more = {**accept, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        async with (
            asyncio.timeout(PATIENCE),
            crib.client.stream("GET", path, headers={**headers, **more}) as stream,
        ):
            assert stream.status_code == 200
            crib.tokens.revoke(issued.record.id)
            async for _ in stream.aiter_bytes():
                pass


@pytest.mark.usefixtures("quick")
async def test_no_token_is_in_any_log_at_any_level(tmp_path: Path) -> None:
    """Finding 18: with every logger at its most talkative, neither a valid token nor a wrong one is
    in the log of any library, over REST, SSE, WebSocket (header and subprotocol) and MCP.
    """
    lines: list[str] = []

    class Everything(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name} {self.format(record)}")

    handler, root = Everything(level=1), logging.getLogger()
    before = root.level
    wrong = new_token()
    root.addHandler(handler)
    root.setLevel(1)
    try:
        async with crib_at(tmp_path) as crib:
            issued = crib.issue()
            secrets = (issued.token, wrong, OWNERS, CALLERS, WRONG)
            for token in secrets:
                headers = {**bearer(token), "Cookie": f"session={token}; other={token}"}
                await crib.client.get(f"/v1/sessions?access_token={token}", headers=headers)
                await crib.client.post("/mcp", json=INITIALIZE, headers={**headers, **BOTH})
                for way in ("header", "subprotocol"):
                    await _knock(crib, token, way)
    finally:
        root.setLevel(before)
        root.removeHandler(handler)

    parts = [token.rpartition("_")[2] for token in secrets]
    assert any(line.startswith("uvicorn.error") and "***" in line for line in lines)
    assert [line for line in lines if any(part in line for part in parts)] == []


async def _knock(crib: Crib, token: str, way: str) -> None:
    url = f"ws{crib.url.removeprefix('http')}/v1/ws?token={token}"
    headers: Mapping[str, str] = bearer(token) if way == "header" else {}
    offered = () if way == "header" else ("toolcrib.v1", f"toolcrib.bearer.{token}")
    names = [Subprotocol(name) for name in offered]
    quiet = logging.getLogger("silent")
    quiet.setLevel(logging.CRITICAL)
    try:
        async with connect(
            url, additional_headers=headers, subprotocols=names or None, logger=quiet
        ) as socket:
            await socket.send('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
            await socket.recv()
    except InvalidStatus:
        pass


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("< Authorization: Bearer abc.def", "< Authorization: Bearer ***"),
        ("(b'authorization', b'Bearer abc')", "(b'authorization', b'Bearer ***')"),
        ("authorization: opaque-secret", "authorization: ***"),
        (
            "Sec-WebSocket-Protocol: toolcrib.v1, toolcrib.bearer.abc, x",
            "Sec-WebSocket-Protocol: toolcrib.v1, toolcrib.bearer.***, x",
        ),
        ("Cookie: a=1; b=2", "Cookie: ***"),
        ("GET /v1?access_token=abc&x=1", "GET /v1?access_token=***&x=1"),
        ("GET /cb?code=abc HTTP/1.1", "GET /cb?code=*** HTTP/1.1"),
        ("a tc_abcdefghijkl_" + "x" * 43, "a tc_abcdefghijkl_***"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "***"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_every_spelling_of_a_credential_is_replaced(text: str, clean: str) -> None:
    """As headers, pairs, subprotocols, cookies, queries, tokens and JWTs."""
    assert without_credentials(text) == clean


def test_loggers_that_come_later_are_filtered_too() -> None:
    """A filter of a logger does not see what its children log."""
    child = logging.getLogger("mcp.server.something.imported.late")
    redact_logs()

    assert child.filters


PROXIED = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "crib.example",
}
GUESSES = [
    {**PROXIED, "X-Forwarded-For": f"203.0.113.{number}", **bearer(WRONG)} for number in range(6)
]


@pytest.mark.usefixtures("quick")
async def test_a_proxy_is_believed_only_where_it_is_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without configuration the headers change nothing: not the host, not the scheme of an origin,
    and not the address that failures are counted for.
    """
    page = {"Origin": "https://crib.example", **bearer(OWNERS)}
    hosts = ["127.0.0.1", "crib.example"]
    async with crib_at(tmp_path, allowed_hosts=hosts) as crib:
        unbelieved = await crib.client.get("/v1/sessions", headers={**page, **PROXIED})
        forged = [await crib.client.get("/v1/sessions", headers=guess) for guess in GUESSES]
    assert unbelieved.status_code == 403
    assert forged[-1].status_code == 429
    assert "203.0.113" not in caplog.text

    proxies = ["127.0.0.0/8"]
    async with crib_at(tmp_path, allowed_hosts=hosts, trusted_proxies=proxies) as crib:
        believed = await crib.client.get("/v1/sessions", headers={**page, **PROXIED})
        guesses = [await crib.client.get("/v1/sessions", headers=guess) for guess in GUESSES]
        other = {**PROXIED, "X-Forwarded-Host": "evil.example", **bearer(OWNERS)}
        foreign = await crib.client.get("/v1/sessions", headers=other)
    assert believed.status_code == 200
    assert guesses[-1].status_code == 401
    assert "203.0.113.5" in caplog.text
    assert foreign.status_code == 403
