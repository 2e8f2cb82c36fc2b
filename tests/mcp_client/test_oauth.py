"""Credentials for mounted servers, with a real authorization server and a real MCP server."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jwt
import pytest

from tests.mcp_client.mounted_servers import free_port
from tests.mcp_client.oauth_town import CALLBACK, NAME, Town, browse, served, town, until
from tests.node.identity import CLIENT_SECRET
from tests.node.peers import needs_node
from tests.runtime.host_runtime import scripted
from tests.telemetry.memory_collector import Collected
from toolcrib.egress import EgressPolicy
from toolcrib.errors import CredentialFailed
from toolcrib.ledger.events import Event
from toolcrib.mcp_client.oauth.web import OAuthWeb
from toolcrib.runtime.messages import CallResult
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.store.sqlite import SqliteStore
from toolcrib.testing import ScriptedOpenAI, calls, says

pytestmark = [pytest.mark.wire, needs_node]

ANN = Principal("ann", frozenset({"caller"}))
BEN = Principal("ben", frozenset({"caller"}))
SOURCE = f"mcp:{NAME}"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key of the store, in the environment."""
    text = new_key()
    monkeypatch.setenv("TOOLCRIB_STORE_KEY", text)
    return text


async def sign_in(runtime: Runtime, who: Principal, account: str) -> None:
    """Do what a person does with a link."""
    credentials = runtime.gateway.credentials
    departure = await credentials.begin(NAME, who.name, CALLBACK)
    address = await browse(departure.url, account)
    await credentials.finish(dict(parse_qsl(urlsplit(address).query)))


class Caller:
    """A principal with a session."""

    def __init__(self, runtime: Runtime, who: Principal) -> None:
        self.operations = runtime.as_principal(who)
        self.session_id = ""

    async def open(self) -> Caller:
        self.session_id = (await self.operations.create_session()).session_id
        return self

    async def call(self, tool: str) -> CallResult:
        return await self.operations.call_tool(self.session_id, f"{NAME}_{tool}", {})

    async def unavailable(self) -> dict[str, str]:
        return (await self.operations.list_tools(self.session_id)).unavailable


async def opened(runtime: Runtime, who: Principal) -> Caller:
    return await Caller(runtime, who).open()


async def signed_in(runtime: Runtime, who: Principal, account: str) -> Caller:
    """A caller whose server is connected with the token of an account."""
    caller = await opened(runtime, who)
    await sign_in(runtime, who, account)
    servers = runtime.service.catalog.sessions.servers.personal
    await until(lambda: all(server.fault is None for server in servers.of(who.name)))
    return caller


async def test_each_principal_calls_as_itself() -> None:
    """Two principals sign in with different accounts: the server sees each one's own, and nobody
    else's sign-in gives a principal anything.
    """
    async with town() as place, place.runtime() as runtime:
        ann = await signed_in(runtime, ANN, "ann-of-notes")
        ben = await opened(runtime, BEN)

        assert (await ann.call("whoami")).value == {"result": "ann-of-notes"}
        reason = (await ben.unavailable())[SOURCE]
        assert "sign in" in reason
        refused = await ben.call("whoami")
        assert refused.failure is not None
        assert refused.failure.kind == "not_found"
        notice = await ben.call("sign_in")
        assert notice.value == (
            "The person has to sign in to `notes`: run `toolcrib gateway sign-in notes --principal "
            "ben`. Its tools are listed then."
        )

        ben = await signed_in(runtime, BEN, "ben-of-notes")
        assert (await ben.call("whoami")).value == {"result": "ben-of-notes"}
        assert (await ann.call("whoami")).value == {"result": "ann-of-notes"}
        facts = await runtime.gateway.credentials.list()
        assert [(each.server, each.principal) for each in facts] == [(NAME, "ann"), (NAME, "ben")]


async def test_a_shared_credential_is_everybodys() -> None:
    """With `per: shared` one sign-in serves all principals."""
    async with town() as place, place.runtime(per="shared") as runtime:
        ann, ben = await opened(runtime, ANN), await opened(runtime, BEN)
        await sign_in(runtime, ANN, "robot")
        [server] = runtime.service.catalog.sessions.servers.shared
        await until(lambda: server.fault is None)

        assert (await ann.call("whoami")).value == {"result": "robot"}
        assert (await ben.call("whoami")).value == {"result": "robot"}


async def test_a_token_is_renewed_and_kept(tmp_path: Path, key: str) -> None:
    """An expired token is renewed once for calls that need it at once, the rotated refresh token is
    kept, and another process goes on with it.
    """
    store = SqliteStore(tmp_path / "crib.sqlite3")
    async with town(access_ttl=1) as place:
        async with place.runtime(store, scopes=["offline_access"]) as runtime:
            ann = await signed_in(runtime, ANN, "ada")
            first = place.resource.seen[-1]
            for _ in range(2):
                await until(lambda: _is_stale(place))
                assert (await ann.call("whoami")).value == {"result": "ada"}
            assert place.resource.seen[-1] != first
        async with place.runtime(store, scopes=["offline_access"]) as runtime:
            await until(lambda: _is_stale(place))
            ann = await opened(runtime, ANN)
            assert (await ann.call("whoami")).value == {"result": "ada"}
    store.close()


def _is_stale(place: Town) -> bool:
    claims = jwt.decode(place.resource.seen[-1], options={"verify_signature": False})
    return claims["exp"] <= time.time()


async def test_a_revoked_credential_is_dropped() -> None:
    """When neither the token nor its renewal is taken any more, the credential is forgotten and the
    person is asked again; the next sign-in works.
    """
    async with town() as place, place.runtime(scopes=["offline_access"]) as runtime:
        ann = await signed_in(runtime, ANN, "ada")
        credentials = runtime.gateway.credentials
        kept = await credentials._store.load(NAME, "ann")  # pyright: ignore[reportPrivateUsage]
        assert kept is not None
        await credentials._revoke(kept)  # pyright: ignore[reportPrivateUsage]
        place.resource.refused.add(kept.access_token)

        failed = await ann.call("whoami")
        assert failed.failure is not None
        assert failed.failure.kind == "unavailable"
        assert "toolcrib gateway sign-in notes --principal ann" in failed.failure.message
        assert await credentials.list() == []

        await sign_in(runtime, ANN, "ada")
        assert (await ann.call("whoami")).value == {"result": "ada"}


async def test_signing_out_revokes_the_tokens() -> None:
    """After a sign-out the refresh token is void at the authorization server, too."""
    async with town() as place, place.runtime(scopes=["offline_access"]) as runtime:
        ann = await signed_in(runtime, ANN, "ada")
        credentials = runtime.gateway.credentials
        kept = await credentials._store.load(NAME, "ann")  # pyright: ignore[reportPrivateUsage]
        assert kept is not None
        assert kept.refresh_token is not None

        assert await credentials.sign_out(NAME, "ann")
        failed = await ann.call("whoami")
        assert failed.failure is not None
        assert "sign in" in failed.failure.message
        form = {
            "grant_type": "refresh_token",
            "refresh_token": kept.refresh_token,
            "client_id": kept.client.client_id,
        }
        auth = (kept.client.client_id, kept.client.client_secret or "")
        async with httpx2.AsyncClient() as client:
            answer = await client.post(kept.token_endpoint, data=form, auth=auth)
        assert answer.json()["error"] == "invalid_grant"


async def test_machine_credentials_need_nobody() -> None:
    """Client credentials are got and renewed without a person, and sent to the server alone."""
    async with town() as place:
        auth = {"grant": "client_credentials", "client_id": "gateway"}
        async with place.runtime(**auth, client_secret=CLIENT_SECRET) as runtime:
            ann = await opened(runtime, ANN)
            assert (await ann.call("whoami")).value == {"result": "gateway"}


async def test_a_missing_key_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in a file does not keep a token in the clear: without a key the sign-in fails, and
    says what to set.
    """
    monkeypatch.delenv("TOOLCRIB_STORE_KEY", raising=False)
    store = SqliteStore(tmp_path / "crib.sqlite3")
    async with town() as place, place.runtime(store) as runtime:
        with pytest.raises(CredentialFailed, match="TOOLCRIB_STORE_KEY"):
            await runtime.gateway.credentials.begin(NAME, "ann", CALLBACK)
    store.close()


async def test_no_token_is_written_anywhere(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A token is in no record, event, span, log, prompt, result or error, nor in the bytes of the
    store, also when the server repeats it.
    """
    caplog.set_level(logging.DEBUG)
    store, collected = SqliteStore(tmp_path / "crib.sqlite3"), Collected()
    script = ScriptedOpenAI([calls(f"{NAME}_repeat_token")], [says("done")])
    async with (
        town() as place,
        place.runtime(store, scripted(script), scopes=["offline_access"]) as runtime,
    ):
        events: list[str] = []
        collected.watch(runtime.bus, capture_content=True)
        runtime.bus.subscribe(Event, lambda event: events.append(repr(event)))
        ann = await signed_in(runtime, ANN, "ada")
        repeated = await ann.call("repeat_token")
        assert repeated.value == {"result": "it was [secret], was it not?"}
        await ann.operations.send_prompt(ann.session_id, "Repeat it")
        assert "it was [secret], was it not?" in repr(script.requests)
        kept = await runtime.gateway.credentials._store.load(NAME, "ann")  # pyright: ignore[reportPrivateUsage]
        assert kept is not None
        assert kept.refresh_token is not None
        canaries = [kept.access_token, kept.refresh_token, *place.resource.seen]
        canaries += [kept.client.client_secret or kept.access_token]
        records = [repr(each) for each in store.records(ann.session_id)]
    store.close()
    spans = collected.everything()
    assert "it was [secret]" in spans
    texts = [*events, *records, spans, repr(script.requests), repr(kept), repr(repeated)]
    texts.append(caplog.text)
    for canary in set(canaries):
        assert not [text for text in texts if canary in text]
        assert _files_with(tmp_path, canary.encode()) == []


def _files_with(folder: Path, canary: bytes) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if canary in path.read_bytes()]


async def test_replicas_renew_a_token_once(postgres_url: str) -> None:
    """Two replicas whose token expires at once ask for one renewal: an authorization server that
    rotates refresh tokens takes each of them once, and would revoke all on a second use.
    """
    key = new_key()
    with (
        PostgresStore(postgres_url, key=key) as first,
        PostgresStore(postgres_url, key=key) as second,
    ):
        async with (
            town(access_ttl=2) as place,
            place.runtime(first, scopes=["offline_access"]) as one,
            place.runtime(second, scopes=["offline_access"]) as other,
        ):
            anns = [await signed_in(one, ANN, "ada"), await opened(other, ANN)]
            servers = other.service.catalog.sessions.servers.personal
            await until(lambda: all(server.fault is None for server in servers.of("ann")))
            for _ in range(2):
                await until(lambda: _is_stale(place))
                done = await asyncio.gather(*(ann.call("whoami") for ann in anns * 3))
                assert [result.value for result in done] == [{"result": "ada"}] * 6
            assert len(await one.gateway.credentials.list()) == 1


async def test_a_document_that_names_an_inner_address_leads_nowhere() -> None:
    """The addresses that a server names for signing in are bound by the egress policy: a server of
    another host cannot have this machine asked.
    """
    asked: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.append(scope["path"])

    web = OAuthWeb(["https://mcp.example.org/mcp"], EgressPolicy())
    port = free_port()
    async with served(inner, port):
        with pytest.raises(CredentialFailed, match="not allowed"):
            await web.send(httpx2.Request("GET", f"http://127.0.0.1:{port}/latest/meta-data"))
    with pytest.raises(CredentialFailed, match="https"):
        await web.send(httpx2.Request("GET", "http://mcp.example.org/token"))
    assert asked == []
