"""The service behind a command: a runtime in this process, or a server over HTTP."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.output import fail, redirected_stdout, show_note
from toolcrib.cli.project_options import current_project, is_on_command_line
from toolcrib.cli.runtime_options import hosted_runtime
from toolcrib.cli.store_options import open_store
from toolcrib.errors import Refused, StoreError, UsageError

if TYPE_CHECKING:
    import asyncio

    from toolcrib.project.runtime import RuntimeOptions
    from toolcrib.runtime.blocking_operations import BlockingOperations
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.address import StoreAddress
    from toolcrib.store.store import Store


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


@contextmanager
def open_http(url: str, token_file: Path | None) -> Generator[BlockingOperations]:
    """The server at an address, with its token. Raises `UsageError` when there is no token."""
    # Only a command for a server pays for the HTTP library.
    import asyncio
    import logging

    from toolcrib.client.address import server_location
    from toolcrib.client.async_client import AsyncClient
    from toolcrib.runtime.blocking_operations import BlockingOperations

    if server_location(url, None, token_file).is_exposed:
        show_note("the token goes over the network unencrypted; use https", "yellow")
    # Said above, in the way of a command.
    logging.getLogger("toolcrib.client").setLevel(logging.ERROR)
    with asyncio.Runner() as runner:
        client = AsyncClient(url, token_file=token_file, timeout=TIMEOUT_SECONDS)
        try:
            yield BlockingOperations(client, runner.run)
        finally:
            runner.run(client.aclose())


def plain(result: object) -> Any:
    """A typed result as plain JSON, for commands that print it."""
    from toolcrib.runtime.service import as_json

    return as_json(result)


def local_store(service: BlockingOperations) -> Store | None:
    """The store of a runtime in this process; None for a server."""
    from toolcrib.runtime.runtime import PrincipalOperations

    operations = service.operations
    return operations.store if isinstance(operations, PrincipalOperations) else None


def _on_runtime(runtime: Runtime, runner: asyncio.Runner, who: Principal) -> BlockingOperations:
    """A runtime in this process, driven from synchronous code."""
    from toolcrib.runtime.blocking_operations import BlockingOperations

    return BlockingOperations(runtime.as_principal(who), runner.run)


def current_person(by: str | None = None) -> Principal:
    """The user of the command, or `by`. A user who can write to the store may do anything."""
    import getpass

    from toolcrib.runtime.principal import Principal

    return Principal(
        by or getpass.getuser(), frozenset({"admin"}), transport="cli", may_approve_own=True
    )


@contextmanager
def open_service(
    store: StoreAddress | None, url: str | None, token_file: Path | None, *, by: str | None = None
) -> Generator[BlockingOperations]:
    """The service that the options name. A refusal ends the command with status 1."""
    url = chosen_url(url)
    try:
        if url is not None:
            if by is not None:
                raise typer.BadParameter("--by is for --store; a server knows whose token it is")
            with open_http(url, chosen_token_file(url, token_file)) as service:
                yield service
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
) -> Generator[BlockingOperations]:
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
            with open_http(url, chosen_token_file(url, token_file)) as service:
                yield service
            return
        import asyncio

        with redirected_stdout(), asyncio.Runner() as runner:
            hosting = hosted_runtime(replace(options, drain_seconds=0.0))
            runtime = runner.run(hosting.__aenter__())
            try:
                runner.run(runtime.start())
                yield _on_runtime(runtime, runner, current_person())
            finally:
                runner.run(runtime.close())
                runner.run(hosting.__aexit__(None, None, None))
    except (Refused, StoreError, UsageError, OSError) as error:
        fail(str(error))


@contextmanager
def _on_store(address: StoreAddress, by: str | None) -> Generator[BlockingOperations]:
    import asyncio

    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime

    with open_store(address) as store, asyncio.Runner() as runner:
        runtime = create_runtime(RuntimeConfig(store=store))
        runner.run(runtime.start())
        try:
            yield _on_runtime(runtime, runner, current_person(by))
        finally:
            runner.run(runtime.close())
