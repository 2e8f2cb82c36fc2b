"""Where the commands ask: a runtime of their own, or a server that runs.

A server that runs elsewhere, asked over HTTP with its token.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, cast, get_args
from urllib.parse import quote, urlencode, urlsplit

import typer

from toolcrib.cli.output import fail, redirected_stdout, show_note
from toolcrib.cli.runtime_options import RuntimeOptions, hosted_runtime
from toolcrib.cli.store_options import open_store
from toolcrib.errors import RefusalKind, Refused, StoreError, UsageError
from toolcrib.serving.origins import is_loopback

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.store import Store


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


class HttpConnection:
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
            show_note("the token goes over the network unencrypted; use https", "yellow")

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


def open_http(url: str, token_file: Path | None) -> HttpConnection:
    """The server at an address, with the token for it. Raises `UsageError` without one."""
    from toolcrib.serving.tokens import default_token_file, owner_token

    if token_file is not None:
        return HttpConnection(url, owner_token(token_file))
    if found := os.environ.get(TOKEN_VARIABLE):
        return HttpConnection(url, found)
    # The token of this machine is for servers of this machine alone.
    if is_loopback(urlsplit(url).hostname or "") and default_token_file().exists():
        return HttpConnection(url, owner_token(default_token_file()))
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


OptionalStore = Annotated[
    Path | None, typer.Option("--store", metavar="FILE", help="The store, an SQLite file.")
]


class ServiceConnection(Protocol):
    """Does the operations of a runtime, and answers with plain JSON."""

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Do one operation. Raises `Refused`."""
        ...


class RuntimeConnection:
    """A runtime of this process, driven from code that waits."""

    def __init__(self, runtime: Runtime, runner: asyncio.Runner, who: Principal) -> None:
        self.store: Store = runtime.store
        self._runtime = runtime
        self._runner = runner
        self._who = who

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Do one operation. Raises `Refused`."""
        from toolcrib.runtime.service import as_json

        asking = self._runtime.ask(operation, dict(params or {}), self._who)
        return as_json(self._runner.run(asking))


def current_person(by: str | None = None) -> Principal:
    """Whoever is at the keyboard, or says to be `by`. Who can write the store may do anything."""
    import getpass

    from toolcrib.runtime.principal import SCOPES, Principal

    return Principal(by or getpass.getuser(), frozenset(SCOPES), "cli")


@contextmanager
def open_service(
    store: Path | None, url: str | None, token_file: Path | None, *, by: str | None = None
) -> Generator[ServiceConnection]:
    """The desk that the options name. What it refuses ends the command with status 1."""
    url = chosen_url(url, is_local=store is not None)
    try:
        if url is not None:
            if by is not None:
                raise typer.BadParameter("--by is for --store; a server knows whose token it is")
            yield open_http(url, token_file)
        elif store is not None:
            with _on_store(store, by) as desk:
                yield desk
        else:
            raise typer.BadParameter("say where to look: --store FILE or --url URL")
    except (Refused, StoreError, UsageError) as error:
        fail(str(error))


def chosen_url(url: str | None, *, is_local: bool) -> str | None:
    """The server that is asked; None when what is here is."""
    if url is None:
        return None if is_local else os.environ.get(URL_VARIABLE) or None
    if is_local:
        raise typer.BadParameter("--url asks a server; leave out what is for here")
    return url


@contextmanager
def open_hosted_service(
    asked: RuntimeOptions, url: str | None, token_file: Path | None, *, needs_tools: bool = True
) -> Generator[ServiceConnection]:
    """The server at `url`, or a runtime with the tools that the options name, which is gone at the
    end. What is refused or cannot be loaded ends the command with status 1.
    """
    url = chosen_url(url, is_local=asked.is_local)
    if url is None and needs_tools and not asked.has_tools:
        raise typer.BadParameter(
            "say whose tools: --host-tools FILE, --host-tools-module MODULE, --plugins or --url URL"
        )
    try:
        if url is not None:
            yield open_http(url, token_file)
            return
        with redirected_stdout(), asyncio.Runner() as runner:
            hosting = hosted_runtime(replace(asked, drain_seconds=0.0))
            runtime = runner.run(hosting.__aenter__())
            try:
                runner.run(runtime.start())
                yield RuntimeConnection(runtime, runner, current_person())
            finally:
                runner.run(runtime.close())
                runner.run(hosting.__aexit__(None, None, None))
    except (Refused, StoreError, UsageError, OSError) as error:
        fail(str(error))


@contextmanager
def _on_store(file: Path, by: str | None) -> Generator[RuntimeConnection]:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime

    with open_store(file) as store, asyncio.Runner() as runner:
        runtime = create_runtime(RuntimeConfig(store=store))
        runner.run(runtime.start())
        try:
            yield RuntimeConnection(runtime, runner, current_person(by))
        finally:
            runner.run(runtime.close())
