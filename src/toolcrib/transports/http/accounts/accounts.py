"""The operations by which people sign in and out of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from toolcrib.errors import Refused, UsageError
from toolcrib.runtime.messages import Nothing
from toolcrib.serving.auth import header_text, headers_of, login_of, peer_of
from toolcrib.serving.cookies import csrf_of
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.sign_ins import LINK_SECONDS, BrowserClient, basis_of
from toolcrib.store.shared_store import is_shared
from toolcrib.transports.http.accounts.messages import (
    Issuer,
    Me,
    SignIn,
    SignInLink,
    SignInOptions,
)

if TYPE_CHECKING:
    from starlette.types import Scope

    from toolcrib.clock import Clock
    from toolcrib.runtime.principal import Principal
    from toolcrib.serving.access import Access
    from toolcrib.serving.login import Login
    from toolcrib.serving.refusals import RawHeaders
    from toolcrib.serving.sign_ins import NewSignIn
    from toolcrib.store.store import Store

T = TypeVar("T")

ISSUER_PATH: Final = "/v1/sign-in/oidc"
"""Where a browser goes to sign in at an issuer."""
_LONGEST_BROWSER: Final = 200


@dataclass(frozen=True, slots=True)
class AccountAnswer:
    """What an operation answers, and the cookies that go with it."""

    body: object
    headers: RawHeaders = ()


@dataclass(frozen=True, slots=True)
class Accounts:
    """What the operations of this package work on."""

    access: Access
    store: Store
    clock: Clock

    async def settled(self, change: Callable[[], T]) -> T:
        """Do what changes tokens or sign-ins: in a thread where they are in a shared store."""
        return await asyncio.to_thread(change) if is_shared(self.store) else change()

    async def me(self, params: Nothing, scope: Scope) -> AccountAnswer:
        """Who you are, what you may do, and for a browser what it sends along."""
        secret = self._secret(scope) if login_of(scope).sign_in is not None else None
        return AccountAnswer(_me(login_of(scope), secret))

    async def sign_in(self, params: SignIn, scope: Scope) -> AccountAnswer:
        """Sign in a browser with a one-time code or a token: the answer sets its cookie."""
        if (params.code is None) == (params.token is None):
            raise Refused("invalid", "sign in with either `code` or `token`")
        self.access.browsers.check_page(scope, headers_of(scope))
        if params.code is not None:
            code = params.code
            new = await self.settled(lambda: self.access.sign_ins.exchange(code, client_of(scope)))
        else:
            assert params.token is not None
            credential = params.token.strip().encode("utf-8", "surrogatepass")
            login = await self.access.authenticator.login(credential)
            basis = basis_of(login, self.access.authenticator)
            new = await self.settled(lambda: self.access.sign_ins.open(basis, client_of(scope)))
        return await self.settled(lambda: self.signed_in(new, scope))

    def signed_in(self, new: NewSignIn, scope: Scope) -> AccountAnswer:
        """The answer to a browser that has signed in; what it had before ends."""
        if (earlier := self._secret(scope)) is not None:
            self._end(earlier)
        cookie = self.access.browsers.sign_in_cookie(scope, headers_of(scope))
        seconds = new.record.expires_at - self.clock()
        login = self.access.sign_ins.login(new.secret.encode())
        return AccountAnswer(_me(login, new.secret.encode()), (cookie.header(new.secret, seconds),))

    async def sign_out(self, params: Nothing, scope: Scope) -> AccountAnswer:
        """End the sign-in of the browser that asks, and its open streams."""
        sign_in = login_of(scope).sign_in
        if sign_in is None:
            raise Refused("conflict", "a token is not signed out; an admin revokes it")
        await self.settled(lambda: self.access.sign_ins.end(sign_in))
        cookie = self.access.browsers.sign_in_cookie(scope, headers_of(scope))
        return AccountAnswer(Nothing(), (cookie.removal(),))

    async def options(self, params: Nothing, scope: Scope) -> AccountAnswer:
        """The issuers that a browser can sign in with."""
        flow = self.access.issuer_sign_ins
        issuers = [
            Issuer(label=label, url=f"{ISSUER_PATH}?issuer={quote(label, '')}")
            for label in (() if flow is None else flow.labels)
        ]
        return AccountAnswer(SignInOptions(issuers=issuers))

    async def make_link(self, params: Nothing, scope: Scope) -> AccountAnswer:
        """A link that signs in the principal of the token in a browser, once."""
        login = login_of(scope)
        if login.sign_in is not None:
            raise Refused("forbidden", "a link is made with a token, not by a browser's sign-in")
        base = self.access.browsers.base_url(scope, headers_of(scope))
        basis = basis_of(login, self.access.authenticator)
        code = await self.settled(lambda: self.access.sign_ins.make_link(basis))
        link = SignInLink(url=link_url(base, code), expires_at=self.clock() + LINK_SECONDS)
        return AccountAnswer(link)

    def _secret(self, scope: Scope) -> bytes | None:
        headers = headers_of(scope)
        return self.access.browsers.sign_in_cookie(scope, headers).value(headers)

    def _end(self, secret: bytes) -> None:
        try:
            sign_in = self.access.sign_ins.login(secret).sign_in
        except LoginFailed:
            return
        if sign_in is not None:
            self.access.sign_ins.end(sign_in)


def _me(login: Login, secret: bytes | None) -> Me:
    who = login.principal
    return Me(
        principal=who.name,
        roles=sorted(who.roles),
        groups=sorted(who.groups),
        credential="token" if login.sign_in is None else "sign_in",
        signed_in_by=login.signed_in_by,
        expires_at=login.expires_at,
        csrf=None if secret is None else csrf_of(secret),
    )


def client_of(scope: Scope) -> BrowserClient:
    """Where a request comes from: its address, and what its browser calls itself."""
    named = header_text(headers_of(scope), b"user-agent") or ""
    printable = "".join(letter for letter in named if letter.isprintable())
    return BrowserClient(peer_of(scope), printable[:_LONGEST_BROWSER])


def link_url(base_url: str, code: str) -> str:
    """The one-time link with a code. It is in the fragment, which browsers send to nobody."""
    return f"{base_url}/sign-in#code={code}"


def owner_link(access: Access, owner: Principal, base_url: str) -> str:
    """A one-time link for a principal whose token the host sets. Raises `UsageError` when it has
    none here.
    """
    from toolcrib.serving.login import Login

    if access.authenticator.fingerprint(owner) is None:
        raise UsageError(
            f"{owner.name} has no token on this server, so there is no link to sign in with; "
            "sign in with a token of `toolcrib tokens create`"
        )
    basis = basis_of(Login(owner, "the host"), access.authenticator)
    return link_url(base_url, access.sign_ins.make_link(basis))
