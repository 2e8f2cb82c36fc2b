"""The service behind a command: a runtime in this process, or a server over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeVar, cast, get_args
from urllib.parse import quote, urlencode, urlsplit

import typer

from toolcrib.cli.output import fail, redirected_stdout, show_note
from toolcrib.cli.project_options import current_project, is_on_command_line
from toolcrib.cli.runtime_options import hosted_runtime
from toolcrib.cli.store_options import open_store
from toolcrib.errors import RefusalKind, Refused, StoreError, UsageError
from toolcrib.serving.origins import is_loopback

if TYPE_CHECKING:
    import asyncio

    from toolcrib.project.runtime import RuntimeOptions
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.runtime.typed_operations import TypedOperations
    from toolcrib.store.store import Store

T = TypeVar("T")

URL_VARIABLE: Final = "TOOLCRIB_URL"
TOKEN_VARIABLE: Final = "TOOLCRIB_TOKEN"
TIMEOUT_SECONDS: Final = 600.0
"""How long a response may take: a tool may be slow."""

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Use the server at URL; else {URL_VARIABLE}."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help=f"The token for --url; else {TOKEN_VARIABLE}."
    ),
]


class RemoteConnection:
    """A connection to a server. It follows no redirects and uses no proxy, so that the token goes
    nowhere else.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--url {url} is no HTTP address; write it like http://127.0.0.1:8420")
        self._parts = parts
        self._token = token
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            show_note("the token goes over the network unencrypted; use https", "yellow")

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call one operation. Raises `Refused`; (unavailable) without an answer."""
        from http.client import HTTPException

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
        from http.client import HTTPConnection, HTTPSConnection

        connection_type = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        port = self._parts.port
        connection = connection_type(self._parts.hostname or "", port, timeout=TIMEOUT_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(verb, self._parts.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def open_http(url: str, token_file: Path | None) -> RemoteConnection:
    """The server at an address, with its token. Raises `UsageError` when there is no token."""
    from toolcrib.serving.tokens import default_token_file, owner_token

    if token_file is not None:
        return RemoteConnection(url, owner_token(token_file))
    if token := os.environ.get(TOKEN_VARIABLE):
        return RemoteConnection(url, token)
    # The token in the default file is only for servers on this machine.
    if is_loopback(urlsplit(url).hostname or "") and default_token_file().exists():
        return RemoteConnection(url, owner_token(default_token_file()))
    raise UsageError(f"no token for {url}; give --token-file, or set {TOKEN_VARIABLE}")


def _request(operation: str, params: dict[str, Any]) -> tuple[str, str, str | None]:
    from toolcrib.transports.http.routes import ROUTES

    route = next(route for route in ROUTES if route.name == operation)
    in_path = {name: quote(str(params.pop(name)), safe="") for name in route.in_path}
    path = route.path.format(**in_path)
    fields = {name: value for name, value in params.items() if value is not None}
    if route.verb == "POST":
        return route.verb, path, json.dumps(fields)
    query = {name: json.dumps(v) if isinstance(v, bool) else str(v) for name, v in fields.items()}
    return route.verb, f"{path}?{urlencode(query)}" if query else path, None


def _answer(status: int, text: bytes) -> Any:
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if 200 <= status < 300 and body is not None:
        return body
    error: Any = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        facts = cast("dict[str, Any]", error)
        kind: Any = facts.get("kind")
        known: RefusalKind = kind if kind in get_args(RefusalKind) else "internal"
        raise Refused(known, str(facts.get("message", "refused")))
    raise Refused("internal", f"HTTP status {status}, not from a Toolcrib server; check --url")


OptionalStore = Annotated[
    Path | None, typer.Option("--store", metavar="FILE", help="The store, an SQLite file.")
]


class ServiceConnection(Protocol):
    """A connection to the service of a runtime, with plain JSON in and out."""

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call one operation. Raises `Refused`."""
        ...


class RuntimeConnection:
    """A runtime in this process, driven from synchronous code."""

    def __init__(self, runtime: Runtime, runner: asyncio.Runner, who: Principal) -> None:
        self.store: Store = runtime.store
        self._runtime = runtime
        self._runner = runner
        self._who = who

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call one operation. Raises `Refused`."""
        from toolcrib.runtime.service import as_json

        call = self._runtime.ask(operation, dict(params or {}), self._who)
        return as_json(self._runner.run(call))

    def run(self, job: Callable[[TypedOperations], Coroutine[Any, Any, T]]) -> T:
        """Run several operations in one go, as the same person. Raises `Refused`."""
        return self._runner.run(job(self._runtime.as_principal(self._who)))


def current_person(by: str | None = None) -> Principal:
    """The user of the command, or `by`. A user who can write to the store may do anything."""
    import getpass

    from toolcrib.runtime.principal import Principal

    return Principal(
        by or getpass.getuser(), frozenset({"admin"}), transport="cli", may_approve_own=True
    )


@contextmanager
def open_service(
    store: Path | None, url: str | None, token_file: Path | None, *, by: str | None = None
) -> Generator[ServiceConnection]:
    """The service that the options name. A refusal ends the command with status 1."""
    url = chosen_url(url)
    try:
        if url is not None:
            if by is not None:
                raise typer.BadParameter("--by is for --store; a server knows whose token it is")
            yield open_http(url, chosen_token_file(url, token_file))
        elif store is not None:
            with _on_store(store, by) as service:
                yield service
        else:
            raise typer.BadParameter(
                "name a store or a server: --store FILE or --url URL, or in toolcrib.yaml"
            )
    except (Refused, StoreError, UsageError) as error:
        fail(str(error))


LOCAL_OPTIONS: Final = (
    "host_tools",
    "host_tools_module",
    "plugins",
    "toolset",
    "store",
    "policy",
    "adapter",
    "mcp",
    "mcp_url",
)
"""The options that name a runtime in this process."""


def chosen_url(url: str | None) -> str | None:
    """The address of the server; None for a runtime in this process. Options of the command line
    come first, then `TOOLCRIB_URL`, then `client.url` of the project.
    """
    is_local = is_on_command_line(*LOCAL_OPTIONS)
    if is_on_command_line("url") and is_local:
        raise typer.BadParameter("--url uses a server; leave out the options for a local runtime")
    if is_local or is_on_command_line("url"):
        return None if is_local else url
    return os.environ.get(URL_VARIABLE) or url


def chosen_token_file(url: str, token_file: Path | None) -> Path | None:
    """The file of the token for a server. The project's is only for the project's server, and after
    `TOOLCRIB_TOKEN`.
    """
    if is_on_command_line("token_file") or token_file is None:
        return token_file
    project = current_project()
    is_own = project is not None and project.client.url == url
    return token_file if is_own and not os.environ.get(TOKEN_VARIABLE) else None


@contextmanager
def open_hosted_service(
    options: RuntimeOptions, url: str | None, token_file: Path | None, *, needs_tools: bool = True
) -> Generator[ServiceConnection]:
    """The server at `url`, or a runtime with the tools of the options, which is closed afterwards.
    A refusal or a fault in the options ends the command with status 1.
    """
    url = chosen_url(url)
    if url is None and needs_tools and not options.has_tools:
        raise typer.BadParameter(
            "no tools: name --host-tools FILE, --host-tools-module MODULE, --plugins or --url URL, "
            "or write them into toolcrib.yaml"
        )
    try:
        if url is not None:
            yield open_http(url, chosen_token_file(url, token_file))
            return
        import asyncio

        with redirected_stdout(), asyncio.Runner() as runner:
            hosting = hosted_runtime(replace(options, drain_seconds=0.0))
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
    import asyncio

    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime

    with open_store(file) as store, asyncio.Runner() as runner:
        runtime = create_runtime(RuntimeConfig(store=store))
        runner.run(runtime.start())
        try:
            yield RuntimeConnection(runtime, runner, current_person(by))
        finally:
            runner.run(runtime.close())
