"""Who is known at one replica is known at the other: tokens, sign-ins and one-time links."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.cli.command import invoke
from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS
from tests.transports.replicas.two_servers import ServedReplica, two_servers
from toolcrib.errors import StoreError
from toolcrib.serving import shared_document
from toolcrib.serving.shared_document import SharedDocument
from toolcrib.serving.stored_identity import StoredTokens
from toolcrib.store import PostgresStore

COOKIE = "toolcrib"
OWNER_HEADERS = {"Authorization": f"Bearer {OWNERS}"}


async def status(at: ServedReplica, token: str) -> int:
    answer = await at.client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


async def soon(wanted: int, ask: Callable[[], Awaitable[int]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await ask() != wanted:  # noqa: ASYNC110 - another server knows when
            await asyncio.sleep(0.02)


async def test_a_token_made_at_one_replica_logs_in_at_the_other(postgres_url: str) -> None:
    """The console's operations at A: B lets the token in, and no more once A has revoked it. The
    store has no token in the clear.
    """
    async with two_servers(postgres_url) as (a, b):
        asked = {"name": "ada", "roles": ["caller"], "lifetime_seconds": 3600}
        made = await a.client.post("/v1/tokens", json=asked, headers=OWNER_HEADERS)
        assert made.status_code == 201, made.text
        token, token_id = made.json()["token"], made.json()["facts"]["id"]
        own = await status(a, token)
        await soon(200, lambda: status(b, token))
        revoked = await a.client.delete(f"/v1/tokens/{token_id}", headers=OWNER_HEADERS)
        at_once = await status(a, token)
        await soon(401, lambda: status(b, token))
        value = b.store.value("tokens")

    assert (own, revoked.status_code, at_once) == (200, 200, 401)
    assert value is not None
    assert token.encode() not in value.body


async def test_changes_at_both_replicas_are_all_kept(postgres_url: str) -> None:
    """Tokens that are made at both at once do not overwrite each other."""
    async with two_servers(postgres_url) as replicas:
        made = await asyncio.gather(
            *(
                at.client.post(
                    "/v1/tokens",
                    json={"name": f"p{n}", "roles": ["caller"], "lifetime_seconds": 3600},
                    headers=OWNER_HEADERS,
                )
                for n in range(10)
                for at in replicas
            )
        )
        value = replicas[0].store.value("tokens")

    assert {answer.status_code for answer in made} == {201}
    assert value is not None
    assert value.body.count(b'"sha256"') == 20


async def link_code(at: ServedReplica) -> str:
    made = await at.client.post("/v1/sign-in-links", json={}, headers=OWNER_HEADERS)
    assert made.status_code == 201, made.text
    url: str = made.json()["url"]
    return urlsplit(url).fragment.removeprefix("code=")


async def sign_in(at: ServedReplica, code: str) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=at.url, timeout=PATIENCE) as browser:
        return await browser.post("/v1/sign-in", json={"code": code}, headers={"Origin": at.url})


async def me(at: ServedReplica, secret: str) -> int:
    # Behind one address the name of the cookie is one; here it has the port of each server.
    cookie = f"{COOKIE}-{urlsplit(at.url).port}={secret}"
    async with httpx2.AsyncClient(base_url=at.url, timeout=PATIENCE) as browser:
        return (await browser.get("/v1/me", headers={"Cookie": cookie})).status_code


async def test_a_link_is_used_once_in_all(postgres_url: str) -> None:
    """Links made at A, opened at both at once: each signs in one browser."""
    async with two_servers(postgres_url) as (a, b):
        for _ in range(4):
            code = await link_code(a)
            answers = await asyncio.gather(sign_in(a, code), sign_in(b, code))
            assert sorted(answer.status_code for answer in answers) == [200, 401]


async def test_a_browser_is_signed_in_everywhere(postgres_url: str) -> None:
    """A sign-in at B by a link of A holds at both, and ends at both."""
    async with two_servers(postgres_url) as (a, b):
        signed_in = await sign_in(b, await link_code(a))
        name, _, secret = signed_in.headers["set-cookie"].split(";")[0].partition("=")
        assert name == f"{COOKIE}-{urlsplit(b.url).port}"
        await soon(200, lambda: me(a, secret))
        own = await me(b, secret)
        listed = (await a.client.get("/v1/sign-ins", headers=OWNER_HEADERS)).json()["sign_ins"]
        path = f"/v1/sign-ins/{listed[0]['id']}"
        ended = await a.client.delete(path, headers=OWNER_HEADERS)
        await soon(401, lambda: me(b, secret))

    assert (own, ended.status_code, len(listed)) == (200, 200, 1)


async def test_the_command_makes_tokens_of_the_store(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`toolcrib tokens --store postgresql://` beside two running servers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_servers(postgres_url) as (a, b):
        named = ("--store", postgres_url)
        made = await asyncio.to_thread(
            invoke, "tokens", "create", "ada", "--role", "caller", *named
        )
        token = made.stdout.strip()
        assert made.exit_code == 0, made.output
        for at in (a, b):
            await soon(200, lambda at=at: status(at, token))
        listed = await asyncio.to_thread(invoke, "tokens", "list", *named)
        await asyncio.to_thread(invoke, "tokens", "revoke", "ada", *named)
        for at in (a, b):
            await soon(401, lambda at=at: status(at, token))

    assert "ada  caller" in listed.stdout


def test_a_server_that_cannot_look_does_not_go_by_what_it_knew(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer of the store for half a minute, tokens count as not known."""
    now = [0.0]
    with PostgresStore(postgres_url) as store:
        document = SharedDocument(store, "tokens", elapsed=lambda: now[0])
        tokens = StoredTokens(document)
        document.load()
        tokens.create("ada", ["caller"])
        assert (tokens.is_stale, len(tokens.records())) == (False, 1)

        def fail(name: str) -> None:
            raise StoreError("away")

        monkeypatch.setattr(store, "value", fail)
        now[0] = shared_document.STALE_SECONDS + 1
        with pytest.raises(StoreError):
            document.load()
        assert tokens.is_stale
