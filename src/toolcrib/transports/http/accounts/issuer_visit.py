"""The two addresses of a browser that signs in at an OpenID issuer: one leads there, the other is
where it comes back to. They answer with redirects, for people and not for programs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from toolcrib.errors import Refused
from toolcrib.serving.auth import headers_of, peer_of
from toolcrib.serving.authorization_code import (
    STATE_SECONDS,
    SignInDenied,
    own_path,
    pending_of,
)
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.refusals import as_refused, send_refusal
from toolcrib.serving.sign_ins import basis_of
from toolcrib.transports.http.accounts.accounts import client_of
from toolcrib.transports.http.endpoint import query_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.serving.authorization_code import IssuerSignIns
    from toolcrib.serving.cookies import Cookie
    from toolcrib.serving.login import LoginFailures
    from toolcrib.serving.refusals import RawHeaders
    from toolcrib.transports.http.accounts.accounts import Accounts

CALLBACK_PATH: Final = "/v1/sign-in/callback"
_SIGN_IN_PAGE: Final = "/sign-in"


class _IssuerEndpoint(ABC):
    def __init__(self, accounts: Accounts, failures: LoginFailures) -> None:
        self._accounts = accounts
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a redirect: onwards, or to the sign-in page with what went wrong."""
        flow = self._accounts.access.issuer_sign_ins
        try:
            if flow is None:
                raise Refused("not_found", "this server has no issuer to sign in at")
            location, headers = await self._answer(flow, query_of(scope), scope)
        except LoginFailed as failure:
            await self._failures.record(peer_of(scope), "http", failure)
            location = f"{_SIGN_IN_PAGE}?{urlencode({'error': _fault_of(failure)})}"
            headers = (self._state_cookie(scope).removal(),)
        except Exception as error:
            await send_refusal(send, as_refused(error, "the sign-in"))
            return
        await _redirect(send, location, headers)

    @abstractmethod
    async def _answer(
        self, flow: IssuerSignIns, query: dict[str, str], scope: Scope
    ) -> tuple[str, RawHeaders]:
        """Where the browser goes, and the headers that go with it. Raises `LoginFailed`."""

    def _state_cookie(self, scope: Scope) -> Cookie:
        return self._accounts.access.browsers.state_cookie(scope, headers_of(scope))

    def _redirect_uri(self, scope: Scope) -> str:
        base = self._accounts.access.browsers.base_url(scope, headers_of(scope))
        return f"{base}{CALLBACK_PATH}"


class IssuerVisit(_IssuerEndpoint):
    """Sends a browser to an issuer. An ASGI application."""

    async def _answer(
        self, flow: IssuerSignIns, query: dict[str, str], scope: Scope
    ) -> tuple[str, RawHeaders]:
        url, pending = await flow.begin(
            query.get("issuer", ""), self._redirect_uri(scope), query.get("next", "/")
        )
        cookie = self._state_cookie(scope).header(pending.cookie_value(), STATE_SECONDS)
        return url, (cookie,)


class IssuerReturn(_IssuerEndpoint):
    """Signs in whoever comes back from an issuer. An ASGI application."""

    async def _answer(
        self, flow: IssuerSignIns, query: dict[str, str], scope: Scope
    ) -> tuple[str, RawHeaders]:
        access, cookie = self._accounts.access, self._state_cookie(scope)
        # Without the cookie the browser did not begin here: somebody wants it to be signed in as
        # another person.
        pending = pending_of(cookie.value(headers_of(scope)))
        if pending is None:
            text = "the browser did not begin this sign-in, or took too long"
            raise LoginFailed("expired", text, "a sign-in")
        login = await flow.finish(pending, query, self._redirect_uri(scope))
        basis, settled = basis_of(login, access.authenticator), self._accounts.settled
        new = await settled(lambda: access.sign_ins.open(basis, client_of(scope)))
        answer = await settled(lambda: self._accounts.signed_in(new, scope))
        # The strict cookie comes with the requests of the page, not with this redirect: the page
        # itself is for everybody.
        return own_path(pending.destination), (*answer.headers, cookie.removal())


def _fault_of(failure: LoginFailed) -> str:
    if isinstance(failure, SignInDenied):
        return "denied"
    match failure.fault:
        case "no_role" | "unavailable" | "expired":
            return failure.fault
        case _:
            return "failed"


async def _redirect(send: Send, location: str, headers: RawHeaders) -> None:
    own = [
        (b"location", location.encode("ascii")),
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": b""})
