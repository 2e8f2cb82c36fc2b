"""The one function that opens a store, whichever kind its address names."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.errors import UsageError
from toolcrib.store.store import Store

if TYPE_CHECKING:
    from toolcrib.prices.table import Prices
    from toolcrib.store.address import StoreAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """How a process takes part in a store that several share."""

    lease_seconds: float = 10.0
    """After how long without a sign of life its sessions are free for others."""
    uses_hints: bool = True
    """Whether replicas tell each other what may have changed; without it they look every second or
    two.
    """
    uses_process_check: bool = True
    """Whether a replica of the same machine whose process is gone counts as gone at once."""
    key_file: Path | None = None
    """The key of the secrets in the store; None for that of the environment."""

    def read_key(self) -> str | None:
        """What the file of the key has; None without one. Raises `UsageError`."""
        if self.key_file is None:
            return None
        try:
            return self.key_file.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"the key of the store, {self.key_file}, cannot be read: {error}"
            ) from None


class KeptStore(Store, Protocol):
    """A durable store, with what commands do to its index of calls."""

    def stray_calls(self) -> int:
        """How many calls of the index no ledger has."""
        ...

    def reindex(self) -> int:
        """Make the index of calls anew; returns the number of records."""
        ...


def open_at(
    address: StoreAddress,
    *,
    prices: Prices | None = None,
    replica: ReplicaOptions | None = None,
) -> KeptStore:
    """Open the store at an address; the caller closes it. A missing file, and the tables of an
    empty database, are made. Raises `StoreError`, and `UsageError` without the packages.
    """
    if isinstance(address, Path):
        from toolcrib.store.sqlite import SqliteStore

        return SqliteStore(address, prices=prices, key=(replica or ReplicaOptions()).read_key())
    require_postgres()
    from importlib import import_module

    options = replica or ReplicaOptions()
    module: Any = import_module("toolcrib.store.postgres")
    return module.PostgresStore(
        address.url,
        prices=prices,
        lease_seconds=options.lease_seconds,
        uses_hints=options.uses_hints,
        uses_process_check=options.uses_process_check,
        key=options.read_key(),
    )


def require_postgres() -> None:
    """Raises `UsageError`, with the command to install, when the extra is not installed."""
    if missing := [name for name in ("asyncpg", "cryptography") if find_spec(name) is None]:
        from toolcrib.extras import install_command

        raise UsageError(
            f"a store on PostgreSQL needs {', '.join(missing)}; install it with: "
            f"{install_command('postgres')}"
        )
