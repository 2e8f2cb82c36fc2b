"""Credentials of an MCP server: checked without being repeated in an error, and listed so that
they can be redacted.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import unquote_plus, urlsplit

from toolcrib.errors import InvalidTool

SHORTEST_SECRET = 8
"""Shorter parts of a credential are words like `Bearer`."""
SHORTEST_KEY = 16
"""Shorter names in the path of an address are words like `v2`."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(option: str, url: object) -> None:
    """Accept `None` or an address to which a token can be sent without others reading it."""
    if url is None:
        return
    try:
        parts = urlsplit(url) if isinstance(url, str) and url.isprintable() else None
        host = parts.hostname if parts else None
    except ValueError:
        parts = host = None
    if parts is None or not host or " " in parts.netloc or parts.scheme not in ("http", "https"):
        raise InvalidTool(f"{option} must be an address like 'https://example.org/mcp'")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise InvalidTool(f"{option} must start with https, so that nobody reads what is sent")
    if parts.username is not None or parts.password is not None:
        raise InvalidTool(f"{option} holds a user or password; put them into authorization")


def check_token(option: str, token: object) -> None:
    """Accept `None` or a bare token."""
    if token is not None and not (_is_header_value(token) and cast("str", token).strip()):
        raise InvalidTool(f"{option} must be None or a token, a printable text")


def check_headers(option: str, headers: object) -> Mapping[str, str]:
    """Return an immutable copy of the headers."""
    if not isinstance(headers, Mapping):
        raise InvalidTool(f"{option} must be a mapping from names to values")
    copied = dict(cast("Mapping[Any, Any]", headers))
    for name, value in copied.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidTool(f"{option}: {name!r} is not the name of a header")
        if not _is_header_value(value):
            raise InvalidTool(f"{option}: the value of {name!r} must be a printable text")
    return MappingProxyType(cast("dict[str, str]", copied))


def secrets_in(url: str, *credentials: str) -> tuple[str, ...]:
    """Return the credentials, their parts, and keys in the address, each in plain form."""
    parts = [part for value in credentials for part in value.split()]
    parts += [part for value in credentials for part in _basic_parts(value)]
    long_parts = [part for part in [*parts, *_keys_in(url)] if len(part) >= SHORTEST_SECRET]
    return tuple(dict.fromkeys(filter(None, [*credentials, *long_parts])))


def _basic_parts(credential: str) -> list[str]:
    """User and password together, and the password, of basic authentication."""
    scheme, _, encoded = credential.partition(" ")
    if scheme.lower() != "basic":
        return []
    try:
        decoded = base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return []
    return [decoded, decoded.partition(":")[2]]


def _keys_in(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    for pair in filter(None, parts.query.split("&")):
        yield unquote_plus(pair.partition("=")[2] or pair)
    # Some services give each user an address of their own, with the key in its path.
    for name in parts.path.split("/"):
        if len(name) >= SHORTEST_KEY and any(letter.isdigit() for letter in name):
            yield unquote_plus(name)


def _is_header_value(value: object) -> bool:
    # A line break would smuggle in a header of its own.
    return isinstance(value, str) and value.isprintable()
