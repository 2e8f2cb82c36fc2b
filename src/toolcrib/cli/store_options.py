"""The options of commands on a store, and opening the store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.output import fail
from toolcrib.errors import StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.prices.table import Prices
    from toolcrib.store.sqlite import SqliteStore

StoreFile = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The store, an SQLite file.")
]
OneSession = Annotated[str, typer.Option("--session", metavar="ID", help="The session.")]
AnySession = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="One session only.")
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who decides; else the user of the OS."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


@contextmanager
def open_store(file: Path, *, prices: Prices | None = None) -> Generator[SqliteStore]:
    """The store in FILE; an error of the store ends the command with status 1."""
    from toolcrib.store.sqlite import SqliteStore

    # Opening a missing file would create a store.
    if not file.is_file():
        fail(f"there is no store at {file}")
    try:
        with SqliteStore(file, prices=prices) as store:
            yield store
    except (StoreError, UsageError) as error:
        fail(str(error))


def short_time_text(at: float) -> str:
    """A time for a table: to the second, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def time_text(at: float) -> str:
    """A time in ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
