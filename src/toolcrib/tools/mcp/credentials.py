"""Checks of what a server is reached with. No message repeats what it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

from toolcrib.errors import InvalidTool

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(option: str, url: object) -> None:
    """None, or an address that a token can be sent to without others reading it."""
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
    """None, or a token without anything around it."""
    if token is not None and not (_is_header_value(token) and cast("str", token).strip()):
        raise InvalidTool(f"{option} must be None or a token, a printable text")


def check_headers(option: str, headers: object) -> Mapping[str, str]:
    """A copy of the headers that nobody can change."""
    if not isinstance(headers, Mapping):
        raise InvalidTool(f"{option} must be a mapping from names to values")
    found = dict(cast("Mapping[Any, Any]", headers))
    for name, value in found.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidTool(f"{option}: {name!r} is not the name of a header")
        if not _is_header_value(value):
            raise InvalidTool(f"{option}: the value of {name!r} must be a printable text")
    return MappingProxyType(cast("dict[str, str]", found))


def _is_header_value(value: object) -> bool:
    # A line break would smuggle in a header of its own.
    return isinstance(value, str) and value.isprintable()
