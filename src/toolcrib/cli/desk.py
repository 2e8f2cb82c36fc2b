"""Where the commands ask: a runtime of their own, or a server that runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from toolcrib.cli.hosting import Hosting, hosted
from toolcrib.cli.opened import opened
from toolcrib.cli.remote import URL_VARIABLE, open_remote
from toolcrib.cli.streams import fail, stdout_kept
from toolcrib.errors import Refused, StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.store import Store

MaybeStore = Annotated[
    Path | None, typer.Option("--store", metavar="FILE", help="The store, an SQLite file.")
]


class Desk(Protocol):
    """Does the operations of a runtime, and answers with plain JSON."""

    def ask(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Do one operation. Raises `Refused`."""
        ...


class RuntimeDesk:
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


def person_here(by: str | None = None) -> Principal:
    """Whoever is at the keyboard, or says to be `by`. Who can write the store may do anything."""
    import getpass

    from toolcrib.runtime.principal import SCOPES, Principal

    return Principal(by or getpass.getuser(), frozenset(SCOPES), "cli")


@contextmanager
def opened_desk(
    store: Path | None, url: str | None, token_file: Path | None, *, by: str | None = None
) -> Generator[Desk]:
    """The desk that the options name. What it refuses ends the command with status 1."""
    url = chosen_url(url, is_local=store is not None)
    try:
        if url is not None:
            if by is not None:
                raise typer.BadParameter("--by is for --store; a server knows whose token it is")
            yield open_remote(url, token_file)
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
def hosted_desk(
    asked: Hosting, url: str | None, token_file: Path | None, *, needs_tools: bool = True
) -> Generator[Desk]:
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
            yield open_remote(url, token_file)
            return
        with stdout_kept(), asyncio.Runner() as runner:
            hosting = hosted(replace(asked, drain_seconds=0.0))
            runtime = runner.run(hosting.__aenter__())
            try:
                runner.run(runtime.start())
                yield RuntimeDesk(runtime, runner, person_here())
            finally:
                runner.run(runtime.close())
                runner.run(hosting.__aexit__(None, None, None))
    except (Refused, StoreError, UsageError, OSError) as error:
        fail(str(error))


@contextmanager
def _on_store(file: Path, by: str | None) -> Generator[RuntimeDesk]:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime

    with opened(file) as store, asyncio.Runner() as runner:
        runtime = create_runtime(RuntimeConfig(store=store))
        runner.run(runtime.start())
        try:
            yield RuntimeDesk(runtime, runner, person_here(by))
        finally:
            runner.run(runtime.close())
