"""The cookie of a sign-in, and the checks that keep other pages from using it."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

CSRF_HEADER: Final = b"toolcrib-csrf"
_OWN_SITES: Final = (b"same-origin", b"none")
"""`none` is an address that the person has typed, or a bookmark."""
_WRONG_ORIGIN: Final = "a sign-in is for the pages of this server alone; others send a token"


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie that scripts cannot read, for requests of this server's own pages."""

    name: str
    is_secure: bool
    same_site: str = "Strict"
    path: str = "/"

    def header(self, value: str, seconds: float) -> tuple[bytes, bytes]:
        """The header that sets it."""
        secure = "; Secure" if self.is_secure else ""
        text = (
            f"{self.name}={value}; Path={self.path}; Max-Age={max(0, int(seconds))}; HttpOnly; "
            f"SameSite={self.same_site}{secure}"
        )
        return b"set-cookie", text.encode("ascii")

    def removal(self) -> tuple[bytes, bytes]:
        """The header that removes it."""
        return self.header("", 0)

    def value(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """Its value in a request; None without it, or when it comes twice."""
        sent = headers.get(b"cookie")
        if sent is None:
            return None
        name = self.name.encode("ascii")
        pairs = (pair.strip().partition(b"=") for pair in sent.split(b";"))
        values = [value for each, _, value in pairs if each == name]
        return values[0] if len(values) == 1 and values[0] else None


@dataclass(frozen=True, slots=True)
class BrowserRequests:
    """Judges requests of browsers to one server."""

    public_url: str | None = None

    def base_url(self, scope: Scope, headers: Mapping[bytes, bytes]) -> str:
        """The address of the server as the browser sees it."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self.public_url is not None and _name_of(host) == urlsplit(self.public_url).hostname:
            return self.public_url
        return f"{scope.get('scheme', 'http')}://{host}"

    def sign_in_cookie(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Cookie:
        """The cookie of sign-ins."""
        return self._cookie("toolcrib", scope, headers)

    def state_cookie(
        self, scope: Scope, headers: Mapping[bytes, bytes], name: str = "toolcrib-oidc"
    ) -> Cookie:
        """The cookie of a person who is at an issuer. It must come back with the redirect from
        there, which a strict one does not.
        """
        own = self._cookie(name, scope, headers)
        return Cookie(own.name, own.is_secure, "Lax")

    def _cookie(self, name: str, scope: Scope, headers: Mapping[bytes, bytes]) -> Cookie:
        parts = urlsplit(self.base_url(scope, headers))
        is_secure = parts.scheme == "https"
        # Cookies of all ports of a host are in one jar: two servers on a machine need two names.
        port = parts.netloc.rpartition("]")[2].partition(":")[2]
        full_name = f"{name}-{port}" if port else name
        return Cookie(f"__Host-{full_name}" if is_secure else full_name, is_secure)

    def check_page(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Refused` (forbidden) when a page of another origin sends the request. Pages of the
        same site are other pages too: a browser sends them the strict cookie.
        """
        site = headers.get(b"sec-fetch-site")
        if site is not None and site not in _OWN_SITES:
            raise Refused("forbidden", _WRONG_ORIGIN)
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != self._origin(scope, headers):
            raise Refused("forbidden", _WRONG_ORIGIN)

    def check(self, scope: Scope, headers: Mapping[bytes, bytes], secret: bytes) -> None:
        """Raise `Refused` (forbidden) unless a page of this server sends the request; one that may
        change something must say so in `Origin` and prove it with `Toolcrib-CSRF`.
        """
        self.check_page(scope, headers)
        if scope["method"] in ("GET", "HEAD"):
            return
        if b"origin" not in headers:
            raise Refused("forbidden", _WRONG_ORIGIN)
        sent = headers.get(CSRF_HEADER, b"")
        if not hmac.compare_digest(sent, csrf_of(secret).encode("ascii")):
            raise Refused(
                "forbidden",
                "the header Toolcrib-CSRF is missing or wrong; send the `csrf` of GET /v1/me",
            )

    def _origin(self, scope: Scope, headers: Mapping[bytes, bytes]) -> str:
        parts = urlsplit(self.base_url(scope, headers))
        return f"{parts.scheme}://{parts.netloc}".lower()


def csrf_of(secret: bytes) -> str:
    """What a page must send along with the cookie that it cannot read. Another page cannot know it:
    it is read from `GET /v1/me`.
    """
    digest = sha256(b"toolcrib csrf " + secret).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
