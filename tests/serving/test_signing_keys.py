"""The keys of an issuer: when they are fetched, and for how long they are used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.node.identity import Key
from toolcrib.serving.signing_keys import (
    FRESH_SECONDS,
    REFETCH_SECONDS,
    STALE_SECONDS,
    KeysUnavailable,
    SigningKeys,
    fetch_json,
)

ISSUER = "https://login.example.com"
CONFIGURATION = f"{ISSUER}/.well-known/openid-configuration"
OLD, NEW = Key("old"), Key("new")


class Issuer:
    """An issuer without a network, with a stopwatch that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.published = [OLD]
        self.is_away = False
        self.fetches = 0
        self.configuration: Any = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}
        self.keys = SigningKeys(ISSUER, fetch=self._fetch, elapsed=lambda: self.now)

    async def _fetch(self, url: str) -> Any:
        if url == CONFIGURATION:
            self.fetches += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise KeysUnavailable(f"{url} cannot be reached")
        if url == CONFIGURATION:
            return self.configuration
        return {"keys": [key.public_jwk for key in self.published]}

    async def has(self, key: Key) -> bool:
        return await self.keys.key(key.kid, "RS256") is not None


async def test_rotation_is_followed_at_once() -> None:
    """A new key id fetches the keys; the old key is gone with them."""
    issuer = Issuer()
    assert await issuer.has(OLD)
    issuer.now += REFETCH_SECONDS
    issuer.published = [NEW]

    assert await issuer.has(NEW)
    assert not await issuer.has(OLD)
    assert issuer.keys.generation == 2


async def test_unknown_key_ids_do_not_make_the_server_a_hammer() -> None:
    """A stranger who makes up key ids causes one fetch in ten seconds."""
    issuer = Issuer()
    for number in range(100):
        assert await issuer.keys.key(f"made-up-{number}", "RS256") is None
        issuer.now += 0.1

    assert issuer.fetches <= 2


async def test_many_logins_at_once_fetch_once() -> None:
    """One fetch at a time, for everybody."""
    issuer = Issuer()
    found = await asyncio.gather(*(issuer.has(OLD) for _ in range(50)))

    assert found == [True] * 50
    assert issuer.fetches == 1


async def test_keys_are_refreshed_beside_the_requests() -> None:
    """After five minutes a login starts the fetch and does not wait for it."""
    issuer = Issuer()
    assert await issuer.has(OLD)
    issuer.now += FRESH_SECONDS + 1
    issuer.published = [NEW]

    assert await issuer.has(OLD)
    await issuer.keys.close()


async def test_known_keys_outlive_an_outage_for_an_hour() -> None:
    """Then nobody gets in any more, and when the issuer is back they do."""
    issuer = Issuer()
    assert await issuer.has(OLD)
    issuer.is_away = True
    issuer.now += STALE_SECONDS - 1
    assert await issuer.has(OLD)
    await issuer.keys.close()
    issuer.now += REFETCH_SECONDS + 1
    with pytest.raises(KeysUnavailable, match="cannot be reached"):
        await issuer.has(OLD)
    fetches = issuer.fetches
    with pytest.raises(KeysUnavailable):
        await issuer.has(OLD)
    assert issuer.fetches == fetches

    issuer.is_away = False
    issuer.now += REFETCH_SECONDS
    assert await issuer.has(OLD)


async def test_an_unknown_key_in_an_outage_is_an_outage() -> None:
    """It may be a new key of the issuer, so nothing is said against the token."""
    issuer = Issuer()
    assert await issuer.has(OLD)
    issuer.is_away = True
    issuer.now += REFETCH_SECONDS

    with pytest.raises(KeysUnavailable):
        await issuer.has(NEW)


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"issuer": "https://evil.example.com", "jwks_uri": f"{ISSUER}/jwks"}, "another issuer"),
        ({"issuer": ISSUER, "jwks_uri": "http://login.example.com/jwks"}, "no https address"),
        ({"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"}, "no https address"),
        ({"issuer": ISSUER}, "no https address"),
        ([], "not a JSON object"),
    ],
)
async def test_a_wrong_discovery_document_gives_no_keys(configuration: Any, message: str) -> None:
    """Another issuer's document, or keys that somebody on the way could change."""
    issuer = Issuer()
    issuer.configuration = configuration

    with pytest.raises(KeysUnavailable, match=message):
        await issuer.has(OLD)


async def test_an_issuer_of_oauth_alone_is_discovered_too() -> None:
    """RFC 8414: the well-known part stands before the path of the issuer."""
    url, published = "https://login.example.com/realms/acme", OLD.public_jwk

    async def fetch(address: str) -> Any:
        if (
            address
            == "https://login.example.com/.well-known/oauth-authorization-server/realms/acme"
        ):
            return {"issuer": url, "jwks_uri": f"{url}/jwks"}
        if address == f"{url}/jwks":
            return {"keys": [published]}
        raise KeysUnavailable(f"{address} answered with status 404")

    assert await SigningKeys(url, fetch=fetch).key("old", "RS256") is not None


async def test_an_issuer_without_keys_lets_nobody_in() -> None:
    """An empty set is a fault of the issuer and does not replace what is known."""
    issuer = Issuer()
    issuer.published = []

    with pytest.raises(KeysUnavailable, match="no key that signs"):
        await issuer.has(OLD)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{}", b"302 Found\r\nLocation: http://127.0.0.1:1/", "status 302"),
        (b"nonsense", b"200 OK", "is not JSON"),
        (b"[" * 100_000, b"200 OK", "is not JSON"),
        (b'"' + b"x" * 300_000 + b'"', b"200 OK", "more than"),
    ],
)
async def test_what_is_fetched_is_bounded(body: bytes, status: bytes, message: str) -> None:
    """No redirect, no endless document, no nonsense."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(KeysUnavailable, match=message):
            await fetch_json(f"http://127.0.0.1:{port}/")
    with pytest.raises(KeysUnavailable, match="cannot be reached"):
        await fetch_json(f"http://127.0.0.1:{port}/")
