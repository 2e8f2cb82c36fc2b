"""Signing in at an OpenID issuer with a browser: the authorization code flow with PKCE.

Nothing is kept here while a person is at the issuer: state, nonce and verifier are in a cookie of
their browser, so that nobody can use up a server's memory, and any server of the address can go on.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated_dataclass

from toolcrib.serving.login import Login, LoginFailed
from toolcrib.serving.signing_keys import KeysUnavailable, discovery_url, fetch_json, is_safe_url

if TYPE_CHECKING:
    from toolcrib.serving.oidc import OidcIssuer, OidcLogins

STATE_SECONDS: Final = 600
"""How long a person may take at the issuer."""
_ENDPOINT_SECONDS: Final = 300.0
_SECONDS: Final = 10.0
_MAX_ANSWER: Final = 262_144
_LONGEST_PATH: Final = 2_000


@validated_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class PendingSignIn:
    """A sign-in that is under way at an issuer, as the browser keeps it."""

    issuer: str
    """Its label."""
    state: str
    nonce: str
    verifier: str
    destination: str
    """The page to go to then."""

    def cookie_value(self) -> str:
        """The text of the cookie."""
        return urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode("ascii")


_PENDING: Final = TypeAdapter(PendingSignIn)


def pending_of(cookie: bytes | None) -> PendingSignIn | None:
    """What a browser keeps of a sign-in; None when it keeps none."""
    try:
        return _PENDING.validate_json(urlsafe_b64decode(cookie or b""))
    except (ValidationError, ValueError):
        return None


def own_path(path: str) -> str:
    """A path of this server to go to, or its start page: whoever makes a link must not choose
    another site, and browsers read more as an address than they should.
    """
    is_plain = path.isascii() and path.isprintable() and "\\" not in path and " " not in path
    is_own = path.startswith("/") and not path.startswith("//")
    return path if is_plain and is_own and len(path) <= _LONGEST_PATH else "/"


@dataclass(frozen=True, slots=True)
class _Endpoints:
    authorization: str
    token: str
    userinfo: str | None
    takes_basic: bool
    fetched_at: float


class SignInDenied(LoginFailed):
    """The person, or the issuer, has said no."""


class IssuerSignIns:
    """Leads browsers to the issuers that this server is a client of, and takes them back."""

    def __init__(self, logins: OidcLogins) -> None:
        self._logins = logins
        self._issuers = {each.label: each for each in logins.issuers if each.client_id is not None}
        self._endpoints: dict[str, _Endpoints] = {}

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the issuers."""
        return tuple(self._issuers)

    async def begin(
        self, label: str, redirect_uri: str, destination: str
    ) -> tuple[str, PendingSignIn]:
        """The address at the issuer to send a browser to, and what it keeps meanwhile. Raises
        `LoginFailed`.
        """
        issuer = self._issuer(label)
        endpoints = await self._endpoints_of(issuer)
        pending = PendingSignIn(
            label,
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(48),
            own_path(destination),
        )
        challenge = urlsafe_b64encode(sha256(pending.verifier.encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": issuer.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *issuer.sign_in_scopes))),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge.decode("ascii"),
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in endpoints.authorization else "?"
        return f"{endpoints.authorization}{separator}{urlencode(query)}", pending

    async def finish(
        self, pending: PendingSignIn, answer: Mapping[str, str], redirect_uri: str
    ) -> Login:
        """The login of somebody who comes back from the issuer. Raises `LoginFailed`."""
        issuer = self._issuer(pending.issuer)
        name = f"a sign-in at {issuer.label}"
        if not hmac.compare_digest(answer.get("state", "").encode(), pending.state.encode()):
            raise LoginFailed("expired", "the issuer's answer is for another sign-in", name)
        if answer.get("iss", issuer.url) != issuer.url:
            raise LoginFailed("invalid", "another issuer has answered (RFC 9207)", name)
        if "error" in answer or "code" not in answer:
            # What the issuer says is not repeated: it came through the browser.
            raise SignInDenied("expired", "the issuer did not let the person sign in", name)
        endpoints = await self._endpoints_of(issuer)
        tokens = await self._exchange(issuer, endpoints, answer["code"], pending, redirect_uri)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise LoginFailed("invalid", "the issuer sent no ID token", name)
        claims = await self._logins.claims_of(issuer, id_token.encode(), pending.nonce)
        is_whole = issuer.has_groups(claims) and issuer.name_claim in claims
        if not is_whole and endpoints.userinfo is not None:
            # Many issuers leave all but the subject out of the ID token.
            claims = {**await self._userinfo(endpoints.userinfo, tokens, claims), **claims}
        # The ID token lives for minutes; the sign-in has a life of its own.
        return replace(self._logins.login_of(issuer, claims), expires_at=None)

    def _issuer(self, label: str) -> OidcIssuer:
        issuer = self._issuers.get(label)
        if issuer is None:
            raise LoginFailed("invalid", "there is no such issuer to sign in at", "a sign-in")
        return issuer

    async def _endpoints_of(self, issuer: OidcIssuer) -> _Endpoints:
        known, now = self._endpoints.get(issuer.label), time.monotonic()
        if known is not None and now - known.fetched_at < _ENDPOINT_SECONDS:
            return known
        url = discovery_url(issuer.url)
        try:
            document = _object(await fetch_json(url), url)
        except KeysUnavailable as error:
            raise _unavailable(issuer, str(error)) from None
        # Another issuer's document would lead the person to another site.
        if document.get("issuer") != issuer.url:
            raise _unavailable(issuer, f"{url} names another issuer")
        methods: Any = document.get("token_endpoint_auth_methods_supported")
        userinfo = document.get("userinfo_endpoint")
        endpoints = _Endpoints(
            _address(document, "authorization_endpoint", issuer),
            _address(document, "token_endpoint", issuer),
            userinfo if isinstance(userinfo, str) and is_safe_url(userinfo) else None,
            # The default of the specification, where the document says nothing.
            methods is None or "client_secret_basic" in methods,
            now,
        )
        self._endpoints[issuer.label] = endpoints
        return endpoints

    async def _exchange(
        self,
        issuer: OidcIssuer,
        endpoints: _Endpoints,
        code: str,
        pending: PendingSignIn,
        redirect_uri: str,
    ) -> dict[str, Any]:
        client_id = issuer.client_id or ""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": pending.verifier,
        }
        headers: dict[str, str] = {}
        if issuer.client_secret is None:
            form["client_id"] = client_id
        elif endpoints.takes_basic:
            pair = f"{quote(client_id, '')}:{quote(issuer.client_secret, '')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client_id, "client_secret": issuer.client_secret}
        return await _ask(issuer, "POST", endpoints.token, headers, form)

    async def _userinfo(
        self, url: str, tokens: Mapping[str, Any], claims: Mapping[str, Any]
    ) -> dict[str, Any]:
        issuer = self._logins.issuer_of(str(claims["iss"]))
        headers = {"authorization": f"Bearer {tokens.get('access_token', '')}"}
        facts = await _ask(issuer, "GET", url, headers, None)
        if facts.get("sub") != claims.get("sub"):
            # OpenID Connect Core, 5.3.2: the tokens of somebody else may have been put in.
            raise LoginFailed("invalid", "the issuer describes somebody else", issuer.label)
        return facts


async def _ask(
    issuer: OidcIssuer, method: str, url: str, headers: dict[str, str], form: dict[str, str] | None
) -> dict[str, Any]:
    """The JSON object that an endpoint of the issuer answers. Raises `LoginFailed`."""
    import httpx2

    try:
        async with (
            asyncio.timeout(_SECONDS),
            httpx2.AsyncClient(timeout=_SECONDS, trust_env=url.startswith("https:")) as client,
            client.stream(
                method, url, headers={"accept": "application/json", **headers}, data=form
            ) as response,
        ):
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_ANSWER:
                    raise _unavailable(issuer, "its answer is too long")
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise _unavailable(issuer, type(error).__name__) from None
    if response.status_code >= 500:
        raise _unavailable(issuer, f"it answered with status {response.status_code}")
    try:
        answer = _object(json.loads(body), url)
    except (ValueError, RecursionError, KeysUnavailable):
        answer = {}
    if response.status_code != 200:
        reason = str(answer.get("error", ""))[:80]
        named = reason if reason.isidentifier() else "no reason"
        text = f"the issuer refused the code with status {response.status_code} ({named})"
        raise LoginFailed("invalid", text, f"a sign-in at {issuer.label}")
    return answer


def _unavailable(issuer: OidcIssuer, why: str) -> LoginFailed:
    text = f"{issuer.label} cannot be reached to sign in: {why}"
    return LoginFailed("unavailable", text, f"a sign-in at {issuer.label}")


def _address(document: Mapping[str, Any], name: str, issuer: OidcIssuer) -> str:
    url = document.get(name)
    if not isinstance(url, str) or not is_safe_url(url) or "#" in url:
        raise _unavailable(issuer, f"its document has no https address as {name}")
    return url


def _object(value: Any, url: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise KeysUnavailable(f"{url} is not a JSON object")
    return cast("dict[str, Any]", value)
