"""Nobody comes in who should not, on any route or the socket."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

import pytest
import websockets
from starlette.routing import Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.transports.http.served_runtime import CALLERS, OWNERS, READERS, TOKENS, Served, served
from toolcrib.errors import Refused
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving import login
from toolcrib.serving.auth import read_headers
from toolcrib.transports.http.accounts.routes import OPEN_ROUTES
from toolcrib.transports.http.app import PUBLIC_PAGES, create_app
from toolcrib.transports.http.routes import ROUTES
from toolcrib.transports.http.server_sign_in import OPEN_SIGN_IN_ROUTES
from toolcrib.transports.peer import PEER_METHODS


def walk() -> tuple[list[tuple[str, str]], list[str]]:
    """Every verb and path, and every socket, that the application answers: as it says itself, so
    that a route which is added is walked too.
    """
    ways: list[tuple[str, str]] = []
    sockets: list[str] = []
    for route in create_app(create_runtime(), tokens=TOKENS).routes:
        match route:
            case Route(path=path, methods=set(verbs)):
                ways += [(verb, path) for verb in sorted(verbs)]
            case WebSocketRoute(path=path):
                sockets.append(path)
            case _:
                raise AssertionError(f"nobody has walked {route!r} yet; teach this test to")
    return ways, sockets


EVERY_ROUTE, SOCKETS = walk()
JSON = {"Content-Type": "application/json"}
MALLORY = "mallory-token-0123456789"
PAGE = "https://inbox.example"

STRANGERS: list[tuple[str, Mapping[str, str], int]] = [
    ("no token", {"Authorization": ""}, 401),
    ("wrong token", {"Authorization": f"Bearer {MALLORY}"}, 401),
    ("part of a token", {"Authorization": f"Bearer {OWNERS[:-1]}"}, 401),
    ("token as a password", {"Authorization": f"Basic {OWNERS}"}, 401),
    ("rebound host", {"Host": "rebound.example"}, 403),
    ("host with loopback in it", {"Host": "127.0.0.1.rebound.example"}, 403),
    ("host after brackets", {"Host": "[::1]rebound.example"}, 403),
    ("foreign page", {"Origin": "https://evil.example"}, 403),
    ("page without origin", {"Origin": "null"}, 403),
    ("page of another port", {"Origin": "http://127.0.0.1:1"}, 403),
]

# No client writes an address like that for a socket.
AT_SOCKET = [each for each in STRANGERS if each[0] != "host after brackets"]


@pytest.mark.parametrize(
    ("headers", "status"), [each[1:] for each in STRANGERS], ids=[each[0] for each in STRANGERS]
)
async def test_a_stranger_is_refused_on_every_route(
    headers: Mapping[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing or wrong token, foreign Host, foreign Origin: refused before anything is done. Only
    who signs in has no token yet.
    """
    monkeypatch.setattr("toolcrib.serving.login.FREE_FAILURES", 1_000)
    async with served() as crib:
        for verb, path in (*EVERY_ROUTE, *(("GET", path) for path in SOCKETS)):
            if status == 401 and (verb, path) in {*OPEN_ROUTES, *OPEN_SIGN_IN_ROUTES}:
                continue
            answer = await crib.client.request(verb, path, headers={**JSON, **headers})

            assert answer.status_code == status, (verb, path)
            assert set(answer.json()["error"]) == {"kind", "message", "facts"}
            assert "access-control-allow-origin" not in answer.headers
        sessions = (await crib.client.get("/v1/sessions")).json()

    assert sessions["sessions"] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [each[1:] for each in AT_SOCKET],
    ids=[each[0] for each in AT_SOCKET],
)
async def test_a_stranger_is_refused_at_the_socket(headers: Mapping[str, str], status: int) -> None:
    """The socket has the same gate, before it opens."""
    async with served() as crib:
        told = {"Authorization": f"Bearer {OWNERS}", **headers}
        for path in SOCKETS:
            with pytest.raises(InvalidStatus) as refused:
                await _open(crib, told, path)

            assert refused.value.response.status_code == status, path


async def test_a_foreign_page_may_not_even_ask_whether_it_may() -> None:
    """A browser's question before a request of another page is refused on every route."""
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    async with served() as crib:
        for path in {path for _, path in EVERY_ROUTE}:
            answer = await crib.client.options(path, headers={**asks, "Authorization": ""})

            assert answer.status_code == 403, path
            assert "access-control-allow-origin" not in answer.headers


def test_the_walk_has_seen_what_is_served() -> None:
    """The operations, MCP and the socket are all behind the gate; a document is not."""
    paths = {path for _, path in EVERY_ROUTE}

    assert {each.path for each in ROUTES} | {"/mcp"} <= paths
    assert SOCKETS == ["/v1/ws"]
    assert set(PUBLIC_PAGES) == {"/openapi.json"}


NO_TOKEN = {"Authorization": ""}


@pytest.mark.parametrize("path", PUBLIC_PAGES)
async def test_a_public_page_needs_no_token_and_says_nothing_of_the_server(path: str) -> None:
    """A browser can read where the API is described; a page of another name cannot, and the page
    is the same for every server.
    """
    async with served() as crib:
        answer = await crib.client.get(path, headers=NO_TOKEN)
        posted = await crib.client.post(path, headers={**JSON, **NO_TOKEN})
        rebound = await crib.client.get(path, headers={**NO_TOKEN, "Host": "rebound.example"})
        foreign = await crib.client.get(path, headers={**NO_TOKEN, "Origin": PAGE})

    assert (answer.status_code, answer.content) == (200, PUBLIC_PAGES[path].body())
    assert posted.status_code == 401
    assert (rebound.status_code, foreign.status_code) == (403, 403)


async def test_the_document_can_be_read_in_a_browser() -> None:
    """What the start-up line points to is there without a token."""
    async with served() as crib:
        document = await crib.client.get("/openapi.json", headers=NO_TOKEN)

    assert document.json()["info"]["title"] == "Toolcrib"


async def test_the_gate_lets_in_who_holds_a_token() -> None:
    """The walk above would pass if everything were refused: the owner passes every route."""
    async with served() as crib:
        for verb, path in EVERY_ROUTE:
            answer = await crib.client.request(verb, path, headers=JSON, content=b"{}")

            assert answer.status_code not in (401, 403), (verb, path)
        for path in SOCKETS:
            socket = await _open(crib, {"Authorization": f"Bearer {OWNERS}"}, path)
            await socket.close()


@pytest.mark.parametrize("token", [CALLERS, READERS])
async def test_a_principal_does_only_what_its_roles_say(token: str) -> None:
    """Who may call cannot approve, who may audit cannot call: each route asks for its own role."""
    role = "caller" if token == CALLERS else "auditor"
    async with served() as crib:
        await crib.session()
        for route in ROUTES:
            path = route.path.format(session_id="s", name="echo", call_id="c", **IDS)
            answer = await crib.client.request(
                route.verb, path, headers={**JSON, **crib.as_(token)}, content=_body(route.name)
            )

            is_refused = answer.status_code == 403
            assert is_refused == (role not in route.operation.roles), route.name


@pytest.mark.parametrize("token", [CALLERS, READERS])
async def test_a_principal_does_only_what_its_roles_say_over_a_socket(token: str) -> None:
    """R42: the same for every operation and every method of a connection, approving among them."""
    role = "caller" if token == CALLERS else "auditor"
    methods = {**OPERATIONS, **PEER_METHODS}
    refused: dict[str, bool] = {}
    async with served() as crib:
        await crib.session()
        for path in SOCKETS:
            async with await _open(crib, crib.as_(token), path) as socket:
                for name in methods:
                    asked: dict[str, object] = {
                        "jsonrpc": "2.0",
                        "id": name,
                        "method": name,
                        "params": {},
                    }
                    await socket.send(json.dumps(asked))
                    told = json.loads(await socket.recv())
                    error = told.get("error", {}).get("data", {})
                    refused[told["id"]] = error.get("kind") == "forbidden"

    assert refused == {name: role not in each.roles for name, each in methods.items()}


async def test_who_called_and_over_what_is_on_record() -> None:
    """R46: the record of a call names the principal of its token, and the transport."""
    async with served() as crib:
        await crib.session("caller:s", CALLERS)
        path = "/v1/sessions/caller:s/tools/echo/call"
        body = {"arguments": {"text": "a"}}
        await crib.client.post(path, json=body, headers=crib.as_(CALLERS))
        async with await _open(crib, crib.as_(CALLERS), "/v1/ws") as socket:
            params = {"session_id": "caller:s", "name": "echo", **body}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools.call", "params": params}
            await socket.send(json.dumps(asked))
            await socket.recv()
        told = (await crib.client.get("/v1/sessions/caller:s/events")).json()["events"]

    ended = [each["data"] for each in told if each["kind"] == "tool.invoked"]
    assert [(each["principal"], each["transport"]) for each in ended] == [
        ("caller", "http"),
        ("caller", "websocket"),
    ]


IDS = {"approval_id": "a", "artifact_id": "r", "grant_id": "g", "question_id": "q"}


def _body(name: str) -> bytes:
    bodies = {"approvals.decide": b'{"decision": "approve"}', "prompt.send": b'{"text": "hello"}'}
    return bodies.get(name, b"{}")


async def test_a_call_only_principal_cannot_approve_its_call() -> None:
    """R42: whoever asks for a call cannot say yes to it, and the tool does not run."""
    async with served() as crib:
        await crib.session("caller:s", CALLERS)
        call, caller = "/v1/sessions/caller:s/tools/careful/call", crib.as_(CALLERS)
        body = {"arguments": {"text": "a"}}
        waits = (await crib.client.post(call, json=body, headers=caller)).json()
        decided = await crib.client.post(
            f"/v1/approvals/{waits['approval_id']}/decide",
            json={"decision": "approve"},
            headers=caller,
        )
        left = (await crib.client.get("/v1/approvals")).json()["approvals"]

    assert (decided.status_code, decided.json()["error"]["kind"]) == (403, "forbidden")
    assert [each["state"] for each in left] == ["pending"]
    assert crib.gates.calls == []


async def test_an_allowed_page_may_ask_and_no_other() -> None:
    """Only an origin that was named is answered for; there is no wildcard."""
    async with served(origins=(PAGE,)) as crib:
        asks = {"Access-Control-Request-Method": "POST", "Authorization": ""}
        before = await crib.client.options("/v1/sessions", headers={"Origin": PAGE, **asks})
        answer = await crib.client.get("/v1/sessions", headers={"Origin": PAGE})
        own = await crib.client.get("/v1/sessions", headers={"Origin": crib.server.url})
        evil = {"Origin": "https://evil.example", **asks}
        foreign = await crib.client.options("/v1/sessions", headers=evil)

    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "authorization" in before.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert own.status_code == 200
    assert foreign.status_code == 403
    assert "access-control-allow-origin" not in foreign.headers


async def test_a_page_names_its_token_as_a_protocol_of_the_socket() -> None:
    """A page cannot set headers of a socket; the token is not in the URL, nor sent back."""
    async with served(origins=(PAGE,)) as crib:
        socket = await connect(
            crib.server.url.replace("http", "ws") + "/v1/ws",
            origin=websockets.Origin(PAGE),
            subprotocols=[
                websockets.Subprotocol("toolcrib.v1"),
                websockets.Subprotocol(f"toolcrib.bearer.{OWNERS}"),
            ],
            proxy=None,
        )
        chosen = socket.subprotocol
        await socket.close()

    assert chosen == "toolcrib.v1"


def test_a_header_that_decides_and_comes_twice_is_refused() -> None:
    """A proxy before the server may have looked at the other one."""
    with pytest.raises(Refused, match="duplicate header host"):
        read_headers([(b"Host", b"localhost"), (b"accept", b"*/*"), (b"host", b"x.example")])


async def test_no_token_is_logged_or_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither logs nor answers hold a token, right or wrong, and a URL gives nobody entry."""
    caplog.set_level(logging.DEBUG)
    # A wrong token at every route is part of the test; tests/serving has the delays.
    monkeypatch.setattr(login, "FREE_FAILURES", 1_000)
    told: list[str] = []
    async with served() as crib:
        for token in (OWNERS, MALLORY):
            for verb, path in EVERY_ROUTE:
                answer = await crib.client.request(verb, path, headers=crib.as_(token))
                told.append(answer.text + str(answer.headers))
        query = await crib.client.get(
            "/v1/sessions", params={"token": OWNERS}, headers={"Authorization": ""}
        )

    server_logs = [each for each in caplog.records if not each.name.startswith(("http", "websock"))]
    assert query.status_code == 401
    for token in (OWNERS, MALLORY):
        assert not any(token in each for each in told)
        assert not any(token in each.getMessage() for each in server_logs)


async def _open(crib: Served, headers: Mapping[str, str], path: str) -> websockets.ClientConnection:
    """Open the socket with headers as they are, a rebound Host among them."""
    own = {name: value for name, value in headers.items() if name not in ("Host", "Origin")}
    origin = headers.get("Origin")
    address = crib.server.url.removeprefix("http://")
    host, port = address.split(":")
    uri = f"ws://{headers.get('Host', address)}{path}"
    return await connect(
        uri,
        host=host,
        port=int(port),
        origin=websockets.Origin(origin) if origin else None,
        additional_headers={name: value for name, value in own.items() if value},
        proxy=None,
    )
