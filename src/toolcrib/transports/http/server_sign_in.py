"""Signing in to a mounted MCP server with a browser: a page that a link leads to, the way to the
server's authorization server, and the way back.

The link has no secret. The person who follows it signs in for the principal that the browser is
signed in as here, and the browser that comes back must be the one that went.
"""

from __future__ import annotations

import html
import logging
import re
import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from toolcrib.errors import CredentialFailed, Refused
from toolcrib.mcp_client.server_auth import CALLBACK_PATH, DOCUMENT_PATH, SIGN_IN_PATH
from toolcrib.serving.auth import headers_of, principal_of
from toolcrib.serving.refusals import as_bytes, as_refused, send_json, send_refusal
from toolcrib.transports.http.endpoint import query_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.access import Access
    from toolcrib.serving.cookies import Cookie
    from toolcrib.serving.refusals import RawHeaders

logger = logging.getLogger(__name__)

START_PATH: Final = f"{SIGN_IN_PATH}/start"
OPEN_SIGN_IN_ROUTES: Final = frozenset(
    ("GET", path) for path in (SIGN_IN_PATH, CALLBACK_PATH, DOCUMENT_PATH)
)
"""What is for everybody: the page, the way back, and our client metadata document."""
_VISIT_SECONDS: Final = 600
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_POLICY: Final = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
)
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}}
a.go{{display:inline-block;padding:.5rem 1rem;border:1px solid;border-radius:.3rem}}</style>
</head><body><h1>{title}</h1>{body}</body></html>
"""


class ServerSignIn:
    """Answers the addresses of sign-ins to mounted servers. An ASGI application for each path."""

    def __init__(self, runtime: Runtime, access: Access) -> None:
        self._runtime = runtime
        self._access = access

    def endpoints(self) -> dict[str, Any]:
        """The applications by their paths, which are all for GET."""
        return {
            SIGN_IN_PATH: _Endpoint(self.page),
            START_PATH: _Endpoint(self.start),
            CALLBACK_PATH: _Endpoint(self.finish),
            DOCUMENT_PATH: _Endpoint(self.document),
        }

    async def page(self, scope: Scope, send: Send) -> None:
        """The page of a link. It is another step because a browser that comes from another site
        does not send its strict cookie; from here it does.
        """
        name = str(query_of(scope).get("server", ""))
        if not _NAME.fullmatch(name):
            raise Refused("not_found", "there is no such MCP server to sign in to")
        start = html.escape(f"{START_PATH}?{urlencode({'server': name})}")
        shown = html.escape(name)
        body = (
            f"<p>An MCP server that this Toolcrib uses for you, <b>{shown}</b>, asks you to sign "
            "in. Go on only if you expected this.</p>"
            f'<p><a class="go" href="{start}">Sign in to {shown}</a></p>'
            '<p>You have to be signed in to Toolcrib: <a href="/sign-in" target="_blank" '
            'rel="noopener">sign in there</a> first if you are not.</p>'
        )
        await _send_page(send, 200, f"Sign in to {shown}", body)

    async def start(self, scope: Scope, send: Send) -> None:
        """Send the browser to the authorization server."""
        name = str(query_of(scope).get("server", ""))
        who, browser = principal_of(scope), secrets.token_urlsafe(32)
        who.check(("caller",), "the sign-in to an MCP server")
        credentials = self._runtime.gateway.credentials
        if credentials.is_shared(name):
            # It would be everybody's.
            who.check(("admin",), "the sign-in for a credential that all share")
        departure = await credentials.begin(
            name, who.name, self._redirect_uri(scope), browser=browser
        )
        cookie = self._cookie(scope).header(browser, _VISIT_SECONDS)
        await _redirect(send, departure.url, (cookie,))

    async def finish(self, scope: Scope, send: Send) -> None:
        """Take the browser back, and keep the tokens."""
        cookie = self._cookie(scope)
        browser = (cookie.value(headers_of(scope)) or b"").decode("latin-1")
        answer: Mapping[str, str] = query_of(scope)
        facts = await self._runtime.gateway.credentials.finish(answer, browser=browser)
        shown = html.escape(facts.server)
        body = "<p>You can close this page, and repeat the call that asked for it.</p>"
        await _send_page(send, 200, f"Signed in to {shown}", body, (cookie.removal(),))

    async def document(self, scope: Scope, send: Send) -> None:
        """Our client metadata document, for authorization servers that take its address as id."""
        from toolcrib.mcp_client.oauth.client import client_document

        base = self._access.browsers.public_url
        if base is None or not base.startswith("https:"):
            raise Refused("not_found", "the document needs --public-url with https")
        document = client_document(f"{base}{DOCUMENT_PATH}", f"{base}{CALLBACK_PATH}")
        await send_json(send, 200, as_bytes(document))

    def _redirect_uri(self, scope: Scope) -> str:
        return f"{self._access.browsers.base_url(scope, headers_of(scope))}{CALLBACK_PATH}"

    def _cookie(self, scope: Scope) -> Cookie:
        return self._access.browsers.state_cookie(scope, headers_of(scope), "toolcrib-server")


class _Endpoint:
    """One path. An ASGI application."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what went wrong is a page, for a person."""
        try:
            await self._answer(scope, send)
        except CredentialFailed as error:
            logger.warning("a sign-in to an MCP server failed: %s", error)
            await _send_page(send, 400, "The sign-in failed", f"<p>{html.escape(str(error))}.</p>")
        except Exception as error:
            await send_refusal(send, as_refused(error, "the sign-in"))


async def _send_page(
    send: Send, status: int, title: str, body: str, headers: RawHeaders = ()
) -> None:
    content = _PAGE.format(title=title, body=body).encode()
    own = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        _POLICY,
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": content})


async def _redirect(send: Send, location: str, headers: RawHeaders) -> None:
    own = [
        # An authorization server chose the address.
        (b"location", quote(location, safe="%/:=&?~#+!$,;'@()*[]").encode("ascii")),
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": b""})
