"""Where credentials for mounted servers are kept: encrypted in the store of the runtime, each under
its server and its principal.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from toolcrib.errors import CredentialFailed, StoreError, UsageError
from toolcrib.mcp_client.oauth.client import OAuthClient
from toolcrib.store.shared_store import SharedValue

if TYPE_CHECKING:
    from toolcrib.store.shared_store import ValueStore

T = TypeVar("T")

SHARED_BY_ALL: Final = ""
"""The principal of a credential that all share."""
VISIT_SECONDS: Final = 600.0
"""How long a person may take to sign in."""
_RENEWAL_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
_CREDENTIALS: Final = "mcp-credential/"
_CLIENTS: Final = "mcp-client/"
_VISITS: Final = "mcp-visit/"
_RENEWALS: Final = "mcp-renewal/"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCredential:
    """A token of one principal at one server, with what renews it. Secrets are not in the repr."""

    server: str
    principal: str
    url: str = field(repr=False)
    """The address it is for: at another one it is not used."""
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None
    resource: str
    client: OAuthClient
    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_at: float | None
    lifetime: float | None
    scope: str | None
    signed_in_at: float
    wanted_scope: str | None = None
    """A scope that a call lacked: the next sign-in asks for it too."""

    def is_fresh(self, now: float) -> bool:
        """Whether the access token is worth sending."""
        if self.expires_at is None:
            return True
        return now < self.expires_at - min(10.0, (self.lifetime or 0.0) / 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A sign-in that is under way at an authorization server."""

    server: str
    principal: str
    url: str = field(repr=False)
    issuer: str
    checks_iss: bool
    """Whether the answer must name the issuer (RFC 9207)."""
    token_endpoint: str
    revocation_endpoint: str | None
    resource: str
    client: OAuthClient
    redirect_uri: str
    verifier: str = field(repr=False)
    scope: str | None
    browser: str | None = field(default=None, repr=False)
    """The digest of what the browser that began has to show."""


_CREDENTIAL: Final = TypeAdapter(KeptCredential)
_VISIT: Final = TypeAdapter(Visit)
_CLIENT: Final = TypeAdapter(OAuthClient)


class CredentialStore:
    """The credentials of all principals. A store that cannot keep them raises
    `CredentialFailed`.
    """

    def __init__(self, make_values: Callable[[], ValueStore]) -> None:
        self._make_values = make_values
        self._values: ValueStore | None = None

    async def load(self, server: str, principal: str) -> KeptCredential | None:
        """The credential of a principal; None when there is none."""
        value = await self._ask(lambda values: values.value(_name(server, principal)))
        return None if value is None else _read(_CREDENTIAL, value)

    async def save(self, credential: KeptCredential) -> None:
        """Keep a credential in place of the one before."""
        name = _name(credential.server, credential.principal)
        body = _CREDENTIAL.dump_json(credential)
        await self._ask(lambda values: _put(values, name, body, None))

    async def drop(self, server: str, principal: str) -> None:
        """Forget a credential."""
        await self._ask(lambda values: values.delete_value(_name(server, principal)))

    async def all(self) -> list[KeptCredential]:
        """Every credential, by server and principal."""
        found = await self._ask(lambda values: values.values(_CREDENTIALS))
        read = [each for value in found if (each := _read(_CREDENTIAL, value)) is not None]
        return sorted(read, key=lambda each: (each.server, each.principal))

    async def client(self, server: str, issuer: str, redirect_uri: str) -> OAuthClient | None:
        """The client that was registered for a server before."""
        name = _client_name(server, issuer, redirect_uri)
        value = await self._ask(lambda values: values.value(name))
        return None if value is None else _read(_CLIENT, value)

    async def save_client(
        self, server: str, issuer: str, redirect_uri: str, client: OAuthClient
    ) -> None:
        """Keep a client that was registered."""
        name, body = _client_name(server, issuer, redirect_uri), _CLIENT.dump_json(client)
        await self._ask(lambda values: _put(values, name, body, None))

    async def drop_client(self, server: str, issuer: str, redirect_uri: str) -> None:
        """Forget a client that the authorization server does not know any more."""
        name = _client_name(server, issuer, redirect_uri)
        await self._ask(lambda values: values.delete_value(name))

    async def save_visit(self, state: str, visit: Visit) -> None:
        """Keep a visit until the person comes back."""
        expires_at = time.time() + VISIT_SECONDS
        body = _VISIT.dump_json(visit)
        await self._ask(lambda values: _put(values, _visit_name(state), body, expires_at))

    async def visit(self, state: str) -> Visit | None:
        """The visit of a state; None when there is none, or it took too long."""
        value = await self._ask(lambda values: values.value(_visit_name(state)))
        return None if value is None else _read(_VISIT, value)

    async def end_visit(self, state: str) -> None:
        """Forget a visit: its state is used once."""
        await self._ask(lambda values: values.delete_value(_visit_name(state)))

    @asynccontextmanager
    async def renewal(self, server: str, principal: str) -> AsyncGenerator[None]:
        """Take turns with every process that shares the store: an authorization server that rotates
        refresh tokens takes each of them once.
        """
        name = f"{_RENEWALS}{_key(server, principal)}"
        mine = secrets.token_hex(8).encode()
        while not await self._ask(lambda values: _claim(values, name, mine)):  # noqa: ASYNC110
            # Another process has it: nothing tells this one when it is done.
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            await asyncio.shield(self._ask(lambda values: values.delete_value(name)))

    async def _ask(self, work: Callable[[ValueStore], T]) -> T:
        try:
            return await asyncio.to_thread(self._work, work)
        except (StoreError, UsageError) as error:
            raise CredentialFailed(str(error)) from error

    def _work(self, work: Callable[[ValueStore], T]) -> T:
        if self._values is None:
            self._values = self._make_values()
        return work(self._values)


def _put(values: ValueStore, name: str, body: bytes, expires_at: float | None) -> None:
    while True:
        saved = values.value(name)
        version = 0 if saved is None else saved.version
        value = SharedValue(name, body, version + 1, expires_at, is_secret=True)
        if values.put_value(value, after=None if saved is None else version):
            return


def _claim(values: ValueStore, name: str, mine: bytes) -> bool:
    value = SharedValue(name, mine, 1, time.time() + _RENEWAL_SECONDS, is_secret=True)
    return values.put_value(value, after=None)


def _read(adapter: TypeAdapter[T], value: SharedValue) -> T | None:
    try:
        return adapter.validate_json(value.body)
    except ValidationError:
        # Of another version, which asks to sign in again rather than to repair it.
        return None


def _key(server: str, principal: str) -> str:
    return sha256(f"{server}\0{principal}".encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _name(server: str, principal: str) -> str:
    return f"{_CREDENTIALS}{_key(server, principal)}"


def _client_name(server: str, issuer: str, redirect_uri: str) -> str:
    return f"{_CLIENTS}{sha256(f'{server} {issuer} {redirect_uri}'.encode()).hexdigest()[:40]}"


def _visit_name(state: str) -> str:
    return f"{_VISITS}{sha256(state.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
