"""The signing keys of an OpenID issuer: discovered, cached and rotated."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.serving.origins import is_loopback

_log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 300.0
"""How old the keys may get before they are fetched again in the background."""
STALE_SECONDS: Final = 3_600.0
"""How long keys are used when the issuer cannot be reached."""
REFETCH_SECONDS: Final = 10.0
"""How often an unknown key id, or a failure, may cause another fetch."""
_FETCH_SECONDS: Final = 10.0
_MAX_DOCUMENT: Final = 262_144
_MAX_KEYS: Final = 100
_SMALLEST_RSA_KEY: Final = 2_048
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

Fetch = Callable[[str], Awaitable[Any]]
"""Fetches a JSON document. Raises `KeysUnavailable`."""


class KeysUnavailable(Exception):
    """The keys of an issuer cannot be had."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key of an issuer, as its key set describes it."""

    key_id: str | None
    key_type: str
    algorithm: str | None
    jwk: dict[str, Any]

    def fits(self, key_id: str | None, algorithm: str) -> bool:
        """Whether a token with this header may be signed with the key."""
        if key_id is not None and self.key_id != key_id:
            return False
        if self.algorithm is not None and self.algorithm != algorithm:
            return False
        return _KEY_TYPES.get(algorithm[:2]) == self.key_type


class SigningKeys:
    """The keys of one issuer. Fetching happens in a task of its own, one at a time: no request
    waits for it but those that no known key fits.
    """

    def __init__(
        self,
        issuer_url: str,
        *,
        fetch: Fetch | None = None,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer_url = issuer_url
        self._fetch = fetch or fetch_json
        self._elapsed = elapsed
        self._keys: tuple[SigningKey, ...] = ()
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fault = "they were not fetched yet"
        self._refresh_task: asyncio.Task[None] | None = None
        self.generation = 0
        """Counts the changes of the key set."""

    async def key(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """The key of a token; None when the issuer has none that fits, or none that is certain.
        Raises `KeysUnavailable` when the issuer cannot be asked.
        """
        age = self._elapsed() - self._fetched_at
        if age > STALE_SECONDS:
            await self._refresh()
            if self._elapsed() - self._fetched_at > STALE_SECONDS:
                raise KeysUnavailable(self._fault)
        elif age > FRESH_SECONDS:
            self._start_refresh()
        match = self._matching(key_id, algorithm)
        if match is None and self._tried_at <= self._elapsed() - REFETCH_SECONDS:
            await self._refresh()
            if self._fetched_at < self._tried_at:
                raise KeysUnavailable(self._fault)
            match = self._matching(key_id, algorithm)
        return match

    def prefetch(self) -> None:
        """Begin to fetch the keys before the first login; a failure is logged."""
        self._start_refresh()

    async def close(self) -> None:
        """Stop fetching."""
        if self._refresh_task is not None:
            self._refresh_task.cancel()
            await asyncio.wait([self._refresh_task])

    def _matching(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        fitting = [key for key in self._keys if key.fits(key_id, algorithm)]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self) -> None:
        task = self._start_refresh()
        if task is not None:
            await asyncio.shield(task)

    def _start_refresh(self) -> asyncio.Task[None] | None:
        if self._refresh_task is not None and not self._refresh_task.done():
            return self._refresh_task
        if self._elapsed() - self._tried_at < REFETCH_SECONDS:
            return None
        self._tried_at = self._elapsed()
        self._refresh_task = asyncio.create_task(self._load())
        return self._refresh_task

    async def _load(self) -> None:
        try:
            keys = await self._fetch_keys()
        except KeysUnavailable as error:
            self._fault = str(error)
            _log.error("the keys of %s were not fetched: %s", self._issuer_url, error)
            return
        if keys != self._keys:
            self._keys = keys
            self.generation += 1
            _log.info("%s has %d signing keys", self._issuer_url, len(keys))
        self._fetched_at = self._tried_at

    async def _discover(self, url: str) -> str:
        """The address of the key set, by one discovery document."""
        configuration = _object(await self._fetch(url), url)
        # Another issuer's document would bring other keys (OpenID Connect Discovery, 4.3).
        if configuration.get("issuer") != self._issuer_url:
            raise KeysUnavailable(f"{url} names another issuer than {self._issuer_url}")
        jwks_url = configuration.get("jwks_uri")
        if not isinstance(jwks_url, str) or not is_safe_url(jwks_url):
            raise KeysUnavailable(f"{url} has no https address of a key set (jwks_uri)")
        return jwks_url

    async def _fetch_keys(self) -> tuple[SigningKey, ...]:
        openid, oauth = _discovery_urls(self._issuer_url)
        try:
            jwks_url = await self._discover(openid)
        except KeysUnavailable as error:
            try:
                jwks_url = await self._discover(oauth)
            except KeysUnavailable:
                raise error from None
        listed = _object(await self._fetch(jwks_url), jwks_url).get("keys")
        if not isinstance(listed, list):
            raise KeysUnavailable(f"{jwks_url} is not a key set")
        keys = tuple(
            key for jwk in cast("list[Any]", listed)[:_MAX_KEYS] if (key := _signing_key(jwk))
        )
        if not keys:
            raise KeysUnavailable(f"{jwks_url} has no key that signs")
        return keys


def _discovery_urls(issuer_url: str) -> tuple[str, str]:
    """Where an issuer publishes its metadata: by OpenID Connect Discovery, and by RFC 8414."""
    parts = urlsplit(issuer_url)
    path = parts.path.rstrip("/")
    root = f"{parts.scheme}://{parts.netloc}"
    return (
        f"{root}{path}/.well-known/openid-configuration",
        f"{root}/.well-known/oauth-authorization-server{path}",
    )


def discovery_url(issuer_url: str) -> str:
    """Where an issuer says what it is, by OpenID Connect Discovery."""
    return _discovery_urls(issuer_url)[0]


def is_safe_url(url: str) -> bool:
    """Whether nobody between here and there can change what is fetched: https, or this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


async def fetch_json(url: str) -> Any:
    """Fetch a JSON document, without redirects and within bounds of time and size."""
    import httpx2

    try:
        async with (
            asyncio.timeout(_FETCH_SECONDS),
            # A plain text request to this machine must not go through a proxy of the environment.
            httpx2.AsyncClient(
                timeout=_FETCH_SECONDS, trust_env=url.startswith("https:")
            ) as client,
            client.stream("GET", url, headers={"accept": "application/json"}) as response,
        ):
            if response.status_code != 200:
                raise KeysUnavailable(f"{url} answered with status {response.status_code}")
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_DOCUMENT:
                    raise KeysUnavailable(f"{url} has more than {_MAX_DOCUMENT} bytes")
        return json.loads(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise KeysUnavailable(f"{url} cannot be reached ({type(error).__name__})") from None
    except (ValueError, RecursionError):
        raise KeysUnavailable(f"{url} is not JSON") from None


def _object(document: Any, url: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise KeysUnavailable(f"{url} is not a JSON object")
    return cast("dict[str, Any]", document)


def _signing_key(jwk: Any) -> SigningKey | None:
    """The key that a JWK describes; None for one that does not sign, or is too weak."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    if not isinstance(jwk, dict):
        return None
    fields = cast("dict[str, Any]", jwk)
    key_type, key_id, algorithm = fields.get("kty"), fields.get("kid"), fields.get("alg")
    if key_type not in _KEY_TYPES.values() or fields.get("use", "sig") != "sig":
        return None
    try:
        key: Any = PyJWK.from_dict(fields).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if key_type == "RSA" and key.key_size < _SMALLEST_RSA_KEY:
        return None
    return SigningKey(
        key_id if isinstance(key_id, str) else None,
        cast("str", key_type),
        algorithm if isinstance(algorithm, str) else None,
        fields,
    )
