"""The console: the built page that a server gives to browsers.

The page is the same for every server and says nothing about this one, so it needs no token; all
that it shows comes from the API, which does. Nothing is read before a browser asks for it.
"""

from __future__ import annotations

import hashlib
import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.serving.auth import Headers, headers_of
from toolcrib.serving.health import PLAIN_TEXT

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PAGE_PATHS: Final = (
    "/inbox",
    "/sessions",
    "/chat",
    "/tools",
    "/servers",
    "/activity",
    "/policy",
    "/grants",
    "/people",
    "/sign-in",
)
"""Paths of the page, besides `/`. Those below them are the page's too."""

_FIRST_SEGMENTS: Final = frozenset(path[1:] for path in PAGE_PATHS)
_ASSETS: Final = "assets"
_INDEX: Final = "index.html"
_NONCE: Final = b"__NONCE__"
_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))
"""The encodings that the build has made, the best first, and how their files end."""
_CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": PLAIN_TEXT,
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; manifest-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_UNUSED_FEATURES: Final = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer",
    "microphone", "midi", "payment", "publickey-credentials-get", "usb", "xr-spatial-tracking",
)  # fmt: skip
SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", ", ".join(f"{name}=()" for name in _UNUSED_FEATURES).encode()),
)
"""What every answer of the console carries."""
_ASSET_POLICY: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_FOR_EVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_ASK_AGAIN: Final = (b"cache-control", b"no-cache")

NOT_BUILT: Final = (
    "Toolcrib: a tool runtime. It runs, and its console, a page for the browser, is not built.\n"
    "\n"
    "In a checkout: run `make console`, then reload this page. It takes about a minute.\n"
    "Elsewhere: install a released wheel of toolcrib, which has the page in it.\n"
    "\n"
    "The API is described at /openapi.json, and /mcp speaks MCP; requests need a token.\n"
)
NO_CONSOLE: Final = (
    "Toolcrib: a tool runtime.\n"
    "The API is described at /openapi.json, and /mcp speaks MCP; requests need a token.\n"
)

_HERE: Final = Path(__file__).parent
_INSTALLED: Final = _HERE / "page"
"""Where the wheel has the built page."""


def checkout_folder() -> Path | None:
    """The checkout that this package is run from; None when it is installed."""
    root = _HERE.parents[3]
    return root if (root / "console" / "package.json").is_file() else None


def page_folder() -> Path:
    """Where the built page is, or would be: in a checkout what was built last."""
    checkout = checkout_folder()
    return _INSTALLED if checkout is None else checkout / "console" / "dist"


@dataclass(frozen=True, slots=True)
class _BuiltPage:
    """The built files, as they are until the next build."""

    folder: Path
    built_at: int
    index: bytes
    etag: bytes
    files: Mapping[str, Mapping[str, Path]]
    """By the path in the URL: the file for each encoding, and for `identity`."""

    @classmethod
    def read(cls, folder: Path, built_at: int) -> _BuiltPage:
        index = (folder / _INDEX).read_bytes()
        etag = f'W/"{hashlib.sha256(index).hexdigest()[:32]}"'.encode()
        files: dict[str, dict[str, Path]] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix in _CONTENT_TYPES and path.is_file():
                name = path.relative_to(folder).as_posix()
                files[name] = {"identity": path} | {
                    encoding: encoded
                    for encoding, end in _ENCODINGS
                    if (encoded := path.with_name(path.name + end)).is_file()
                }
        return cls(folder, built_at, index, etag, files)


class ConsolePage:
    """Answers for the paths of the console. A `PublicSite`.

    Only files that a listing of the folder named are served, so that no path leads out of it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._chosen = folder
        self._built: _BuiltPage | None = None

    @cached_property
    def _folder(self) -> Path:
        return self._chosen or page_folder()

    def covers(self, path: str) -> bool:
        """Whether a path belongs to the console: a page of it, or one of its files."""
        first, _, rest = path[1:].partition("/")
        if first in _FIRST_SEGMENTS or not first:
            return first != "" or not rest
        if first == _ASSETS:
            return True
        return not rest and Path(first).suffix in _CONTENT_TYPES and self._has(first)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a GET or a HEAD of a path that it covers."""
        built = self._page()
        name = scope["path"][1:]
        headers = headers_of(scope)
        if built is None:
            await _send_text(send, 200 if not name else 404, NOT_BUILT)
        elif name.partition("/")[0] == _ASSETS or name in built.files:
            await _send_file(send, built, name, headers)
        else:
            await _send_index(send, built, headers)

    def _has(self, name: str) -> bool:
        built = self._page()
        return built is not None and name in built.files

    def _page(self) -> _BuiltPage | None:
        """The page as it was built last. A server goes on through a build."""
        try:
            built_at = (self._folder / _INDEX).stat().st_mtime_ns
            if self._built is None or self._built.built_at != built_at:
                self._built = _BuiltPage.read(self._folder, built_at)
        except OSError:
            self._built = None
        return self._built


class NoConsole:
    """Answers at `/` where there is no console, in plain text. A `PublicSite`."""

    def covers(self, path: str) -> bool:
        """Only the root."""
        return path == "/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say what this server is."""
        await _send_text(send, 200, NO_CONSOLE)


async def _send_index(send: Send, built: _BuiltPage, headers: Headers) -> None:
    cached = (_ASK_AGAIN, (b"etag", built.etag))
    if built.etag in headers.get(b"if-none-match", b""):
        # Without a policy: the browser goes on with the nonce and the policy that it has.
        await _send(send, 304, b"", cached)
        return
    nonce = urlsafe_b64encode(os.urandom(18))
    policy = (b"content-security-policy", _POLICY.format(nonce=nonce.decode()).encode())
    body = built.index.replace(_NONCE, nonce)
    await _send(send, 200, body, (_type_of(_INDEX), policy, *cached))


async def _send_file(send: Send, built: _BuiltPage, name: str, headers: Headers) -> None:
    encodings = built.files.get(name)
    if encodings is None:
        await _send_text(send, 404, "There is no such file; reload the page.\n")
        return
    accepted = _accepted(headers)
    encoding = next((each for each in accepted if each in encodings), "identity")
    try:
        body = encodings[encoding].read_bytes()
    except OSError:
        await _send_text(send, 404, "The page was built anew; reload it.\n")
        return
    own = [_type_of(name), _ASSET_POLICY, (b"vary", b"accept-encoding")]
    own.append(_FOR_EVER if name.startswith(f"{_ASSETS}/") else _ASK_AGAIN)
    if encoding != "identity":
        own.append((b"content-encoding", encoding.encode()))
    await _send(send, 200, body, own)


async def _send_text(send: Send, status: int, text: str) -> None:
    own = ((b"content-type", PLAIN_TEXT.encode()), (b"cache-control", b"no-store"), _ASSET_POLICY)
    await _send(send, status, text.encode(), own)


async def _send(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    # A 304 has no body, and so no length of one.
    length = () if status == 304 else ((b"content-length", str(len(body)).encode()),)
    sent = [*headers, *length, *SECURITY_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


def _type_of(name: str) -> tuple[bytes, bytes]:
    suffix = Path(name).suffix
    kind = "text/html; charset=utf-8" if name == _INDEX else _CONTENT_TYPES[suffix]
    return b"content-type", kind.encode()


def _accepted(headers: Headers) -> list[str]:
    """The encodings that a client takes, the best first."""
    listed = headers.get(b"accept-encoding", b"").decode("latin-1").lower().split(",")
    names = {
        name.strip()
        for name, _, options in (each.partition(";") for each in listed)
        if options.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    }
    return [encoding for encoding, _ in _ENCODINGS if encoding in names]
