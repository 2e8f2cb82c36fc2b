"""The options of commands on a store, and opening the store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.output import fail
from toolcrib.errors import StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.prices.table import Prices
    from toolcrib.store.address import StoreAddress
    from toolcrib.store.kept_store import KeptStore, ReplicaOptions


def parsed_address(text: Any) -> StoreAddress:
    """The store that an option names. Raises `BadParameter`."""
    from toolcrib.store.address import store_address

    try:
        return store_address(text)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from None


_OPTION: Final = typer.Option(
    "--store",
    metavar="FILE|URL",
    parser=parsed_address,
    help="The store: an SQLite file, or postgresql://...; else TOOLCRIB_STORE.",
)

if TYPE_CHECKING:
    StoreOption = StoreAddress
    OptionalStore = StoreAddress | None
else:
    StoreOption = Annotated[str, _OPTION]
    OptionalStore = Annotated[str | None, _OPTION]
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
def open_store(address: StoreAddress, *, prices: Prices | None = None) -> Generator[KeptStore]:
    """The store at an address; an error of the store ends the command with status 1."""
    from contextlib import closing

    from toolcrib.store.kept_store import open_at

    # Opening a missing file would create a store.
    if isinstance(address, Path) and not address.is_file():
        fail(f"there is no store at {address}")
    try:
        with closing(open_at(address, prices=prices, replica=_replica_options())) as store:
            yield store
    except (StoreError, UsageError) as error:
        fail(str(error))


def _replica_options() -> ReplicaOptions:
    from toolcrib.cli.project_options import current_project
    from toolcrib.project.runtime import replica_options

    return replica_options(current_project())


def short_time_text(at: float) -> str:
    """A time for a table: to the second, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def time_text(at: float) -> str:
    """A time in ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
