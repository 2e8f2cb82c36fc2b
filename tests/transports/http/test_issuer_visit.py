"""Signing in at an OpenID issuer with a browser, against a real provider."""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.node.identity import IdentityServer, Key, identity_server
from tests.transports.http.test_sign_in import Crib, crib_in
from toolcrib.serving.authorization_code import IssuerSignIns, own_path
from toolcrib.serving.oidc import OidcIssuer, OidcLogins

pytestmark = pytest.mark.wire

PUBLIC = "http://127.0.0.1:8999"
"""The public address, under which the client is registered. Requests go to the real one."""


async def register(identity: IdentityServer, redirect_uri: str, *, is_public: bool) -> Any:
    """A client of the issuer, made as an operator would."""
    client = {
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none" if is_public else "client_secret_basic",
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
    }
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        answer = await http.post(f"{identity.issuer}/reg", json=client)
    assert answer.status_code == 201, answer.text
    return answer.json()


@asynccontextmanager
async def at_issuer(
    folder: Path, *, is_public: bool = True, **changes: Any
) -> AsyncGenerator[tuple[Crib, IdentityServer]]:
    """A server that is a client of a real issuer."""
    async with identity_server() as identity:
        await identity.set_up([Key("k1")], [])
        client = await register(identity, f"{PUBLIC}/v1/sign-in/callback", is_public=is_public)
        issuer = OidcIssuer(
            url=identity.issuer,
            label="acme",
            roles={"engineers": ["caller"]},
            client_id=client["client_id"],
            client_secret=client.get("client_secret"),
            sign_in_scopes=["groups"],
        )
        async with crib_in(folder, issuers=[replace(issuer, **changes)], public_url=PUBLIC) as crib:
            yield crib, identity


class Person:
    """Does what a browser does: follows redirects and keeps cookies, of each host its own."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self.own = crib.client
        self.elsewhere = httpx2.AsyncClient(timeout=PATIENCE)
        self.visited: list[str] = []

    async def get(self, address: str) -> httpx2.Response:
        self.visited.append(address)
        if address.startswith(PUBLIC):
            path = address.removeprefix(PUBLIC)
            return await self.own.get(path, headers={"Host": urlsplit(PUBLIC).netloc})
        return await self.elsewhere.get(address)

    async def sign_in(self, path: str = "/v1/sign-in/oidc?issuer=acme&next=/inbox") -> str:
        """The path on this server where it ends."""
        return await self.follow(f"{PUBLIC}{path}")

    async def follow(self, address: str, *, until: str = "\0") -> str:
        async with self.elsewhere:
            for _ in range(20):
                if until in address:
                    return address
                answer = await self.get(address)
                if answer.status_code not in (302, 303):
                    return address.removeprefix(PUBLIC)
                address = urljoin(address, answer.headers["location"])
        raise AssertionError("too many redirects")

    async def me(self) -> httpx2.Response:
        return await self.own.get("/v1/me", headers={"Host": urlsplit(PUBLIC).netloc})


@pytest.mark.parametrize("is_public", [True, False], ids=["public", "confidential"])
async def test_a_person_signs_in_at_the_issuer(is_public: bool, tmp_path: Path) -> None:
    """With PKCE, and with a secret where there is one; the roles are those of the groups."""
    async with at_issuer(tmp_path, is_public=is_public) as (crib, identity):
        options = (await crib.client.get("/v1/sign-in/options")).json()
        person = Person(crib)
        end = await person.sign_in()
        me = (await person.me()).json()

    asked = parse_qs(urlsplit(person.visited[1]).query)
    assert person.visited[1].startswith(identity.issuer)
    assert asked["code_challenge_method"] == ["S256"]
    assert {"state", "nonce", "code_challenge"} <= asked.keys()
    assert options["issuers"] == [{"label": "acme", "url": "/v1/sign-in/oidc?issuer=acme"}]
    assert end == "/inbox"
    assert (me["principal"], me["roles"], me["groups"]) == ("acme:ada", ["caller"], ["engineers"])
    assert me["signed_in_by"] == "oidc"


async def test_nobody_is_signed_in_as_somebody_else(tmp_path: Path) -> None:
    """An answer that the browser did not ask for, or with another state, is nothing."""
    async with at_issuer(tmp_path) as (crib, _):
        attacker = Person(crib)
        stolen = await attacker.follow(
            f"{PUBLIC}/v1/sign-in/oidc?issuer=acme", until="/v1/sign-in/callback"
        )
        crib.client.cookies.clear()
        victim = Person(crib)
        without = await victim.follow(stolen)
        await Person(crib).follow(f"{PUBLIC}/v1/sign-in/oidc?issuer=acme", until="/callback")
        other_state = await Person(crib).follow(stolen)
        me = await victim.me()

    assert without.startswith("/sign-in?error=expired")
    assert other_state.startswith("/sign-in?error=expired")
    assert me.status_code == 401


@pytest.mark.parametrize("field", ["nonce", "verifier"])
async def test_the_nonce_and_the_verifier_are_checked(field: str, tmp_path: Path) -> None:
    """Tokens of another sign-in, and codes that somebody else began, are refused."""
    async with at_issuer(tmp_path) as (crib, _):
        address = await Person(crib).follow(
            f"{PUBLIC}/v1/sign-in/oidc?issuer=acme", until="/v1/sign-in/callback"
        )
        (cookie,) = crib.client.cookies.jar
        kept = json.loads(urlsafe_b64decode(cookie.value or ""))
        changed = urlsafe_b64encode(json.dumps({**kept, field: "x" * 48}).encode()).decode()
        crib.client.cookies.clear()
        answer = await crib.client.get(
            address.removeprefix(PUBLIC),
            headers={"Host": urlsplit(PUBLIC).netloc, "Cookie": f"{cookie.name}={changed}"},
        )

    assert answer.headers["location"] == "/sign-in?error=failed"
    assert not any("toolcrib-8999=" in each for each in answer.headers.get_list("set-cookie"))


async def test_who_has_no_role_is_told(tmp_path: Path) -> None:
    """The issuer knows them, and this server has no use for them."""
    async with at_issuer(tmp_path, roles={"leads": ["admin"]}) as (crib, _):
        end = await Person(crib).sign_in()

    assert end == "/sign-in?error=no_role"


async def test_an_issuer_that_is_away_is_told(tmp_path: Path) -> None:
    """Neither an error page nor a hanging one."""
    async with at_issuer(tmp_path) as (crib, identity):
        await identity.set_away(True)
        end = await Person(crib).sign_in()

    assert end == "/sign-in?error=unavailable"


async def test_who_says_no_at_the_issuer_is_back(tmp_path: Path) -> None:
    """The page says that the sign-in was cancelled."""
    async with at_issuer(tmp_path) as (crib, _):
        address = await Person(crib).follow(
            f"{PUBLIC}/v1/sign-in/oidc?issuer=acme", until="/v1/sign-in/callback"
        )
        state = parse_qs(urlsplit(address).query)["state"][0]
        end = await Person(crib).follow(
            f"{PUBLIC}/v1/sign-in/callback?error=access_denied&state={state}"
        )

    assert end == "/sign-in?error=denied"


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "/a b", "", "/\u202ex"]
)
def test_the_way_back_is_a_page_of_this_server(path: str) -> None:
    """Whoever makes a link to the sign-in does not choose where it ends."""
    assert own_path(path) == "/"


async def test_no_secret_of_the_flow_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither code, state, verifier, ID token nor the client's secret."""
    caplog.set_level(logging.DEBUG)
    async with at_issuer(tmp_path, is_public=False) as (crib, _):
        person = Person(crib)
        await person.sign_in()
        secret = next(iter(crib.server.access.authenticator.issuers)).client_secret
    callback = next(each for each in person.visited if "/v1/sign-in/callback" in each)
    code = parse_qs(urlsplit(callback).query)["code"][0]
    own = [record for record in caplog.records if record.name.startswith("toolcrib")]

    assert any("acme:ada has signed in" in record.getMessage() for record in own)
    assert secret is not None
    for record in caplog.records:
        # The names of the test's own requests are the test's.
        text = record.getMessage()
        assert secret not in text
        if record in own:
            assert code not in text


async def test_a_change_of_the_roles_ends_the_sign_in(tmp_path: Path) -> None:
    """A server that starts with other roles for the groups does not know the sign-in any more."""
    async with at_issuer(tmp_path) as (crib, _):
        person = Person(crib)
        await person.sign_in()
        issuer = crib.server.access.authenticator.issuers[0]
        for roles, expected in (({"engineers": ["caller"]}, 200), ({"engineers": ["admin"]}, 401)):
            changed = replace(issuer, roles=roles)
            async with crib_in(tmp_path, issuers=[changed], public_url=PUBLIC) as other:
                other.client.cookies = crib.client.cookies
                answer = await Person(other).me()
                assert answer.status_code == expected


def test_only_issuers_with_a_client_id_are_offered() -> None:
    """A server that takes JWTs alone leads nobody anywhere."""
    issuer = OidcIssuer(url="https://a.example", default_roles=["caller"], audiences=["x"])
    other = OidcIssuer(url="https://b.example", default_roles=["caller"], client_id="crib")

    assert IssuerSignIns(OidcLogins([issuer, other])).labels == ("b.example",)
