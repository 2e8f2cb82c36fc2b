"""A server that runs elsewhere, asked over HTTP with its token."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args
from urllib.parse import quote, urlencode, urlsplit

import typer

from toolcrib.cli.streams import note
from toolcrib.errors import RefusalKind, Refused, UsageError
from toolcrib.transports.security_origins import is_loopback

URL_VARIABLE: Final = "TOOLCRIB_URL"
TOKEN_VARIABLE: Final = "TOOLCRIB_TOKEN"
PATIENCE_SECONDS: Final = 600.0
"""How long an answer may take: a tool may be slow."""

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Ask the server there; else {URL_VARIABLE}."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help=f"The token for --url; else {TOKEN_VARIABLE}."
    ),
]


class Remote:
    """Does operations on a server. It follows no redirect and uses no proxy, so that the token
    goes nowhere else.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--url {url} is no address; write http://127.0.0.1:8420")
        self._parts = parts
        self._token = token
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            note("the token goes over the network unencrypted; use https", "yellow")

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Do one operation. Raises `Refused`; also (unavailable) when nobody answers."""
        verb, path, body = _request(operation, dict(params or {}))
        try:
            status, text = self._send(verb, path, body)
        except (OSError, HTTPException) as error:
            raise Refused(
                "unavailable",
                f"no answer from {self._parts.netloc} ({error}); is `toolcrib serve --http` "
                "running there?",
            ) from None
        return _answer(status, text)

    def _send(self, verb: str, path: str, body: str | None) -> tuple[int, bytes]:
        connect = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        port = self._parts.port
        connection = connect(self._parts.hostname or "", port, timeout=PATIENCE_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(verb, self._parts.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def open_remote(url: str, token_file: Path | None) -> Remote:
    """The server at an address, with the token for it. Raises `UsageError` without one."""
    from toolcrib.transports.security import default_token_file, owner_token

    if token_file is not None:
        return Remote(url, owner_token(token_file))
    if found := os.environ.get(TOKEN_VARIABLE):
        return Remote(url, found)
    # The token of this machine is for servers of this machine alone.
    if is_loopback(urlsplit(url).hostname or "") and default_token_file().exists():
        return Remote(url, owner_token(default_token_file()))
    raise UsageError(f"no token for {url}; give --token-file, or set {TOKEN_VARIABLE}")


def _request(operation: str, params: dict[str, Any]) -> tuple[str, str, str | None]:
    from toolcrib.transports.http.routes import ROUTES

    route = next(each for each in ROUTES if each.name == operation)
    named = {name: quote(str(params.pop(name)), safe="") for name in route.in_path}
    path = route.path.format(**named)
    given = {name: value for name, value in params.items() if value is not None}
    if route.verb == "POST":
        return route.verb, path, json.dumps(given)
    texts = {name: json.dumps(v) if isinstance(v, bool) else str(v) for name, v in given.items()}
    return route.verb, f"{path}?{urlencode(texts)}" if texts else path, None


def _answer(status: int, text: bytes) -> Any:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if 200 <= status < 300 and told is not None:
        return told
    error: Any = cast("dict[str, Any]", told).get("error") if isinstance(told, dict) else None
    if isinstance(error, dict):
        facts = cast("dict[str, Any]", error)
        kind: Any = facts.get("kind")
        known: RefusalKind = kind if kind in get_args(RefusalKind) else "internal"
        raise Refused(known, str(facts.get("message", "refused")))
    raise Refused("internal", f"status {status} and no answer of a Toolcrib server; check --url")
