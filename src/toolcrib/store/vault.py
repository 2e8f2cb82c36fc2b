"""Where open calls lie when they hold secrets: in files, never in the database.

A database keeps deleted bytes in its log and free pages for a while; a file is gone when it is
unlinked. Only the owner may read the files, and only what is still open has one.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from toolcrib.store.sqlite_schema import sync_folder

_log = logging.getLogger("toolcrib.store")


class Vault:
    """A folder of owner-only files with random names, which rows of the database keep."""

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        self._folder = folder
        self._fsync = fsync

    def read(self, name: str) -> bytes:
        """Raises `FileNotFoundError` when the file has been erased meanwhile."""
        return (self._folder / name).read_bytes()

    def put(self, data: bytes, *, is_synced: bool = False) -> str:
        """Keep `data` under a new name. Nothing points at the file until its row is committed."""
        is_synced = is_synced or self._fsync
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if is_synced:
                sync_folder(self._folder.parent)
        name = secrets.token_hex(16)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(self._folder / name, flags, 0o600), "wb") as file:
            file.write(data)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        if is_synced:
            sync_folder(self._folder)
        return name

    def put_back(self, name: str, data: bytes) -> None:
        """Keep `data` under the name that it had in another vault."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(self._folder / name, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)

    def erase(self, names: Iterable[str]) -> None:
        """Unlink files; what cannot be unlinked now is swept when the store is next opened."""
        for name in names:
            try:
                (self._folder / name).unlink(missing_ok=True)
            except OSError:
                _log.exception("%s could not be erased", self._folder / name)

    def names(self) -> set[str]:
        """Every file that lies here."""
        try:
            return {entry.name for entry in os.scandir(self._folder)}
        except FileNotFoundError:
            return set()


class VaultChanges:
    """What one transaction does to the vault, settled when the transaction is."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._written: list[str] = []
        self._doomed: list[str] = []

    def read(self, name: str) -> bytes:
        """Raises `FileNotFoundError` when the file has been erased meanwhile."""
        return self._vault.read(name)

    def put(self, data: bytes, *, is_synced: bool = False) -> str:
        """Keep `data`, unless the transaction is rolled back."""
        name = self._vault.put(data, is_synced=is_synced)
        self._written.append(name)
        return name

    def doom(self, names: Iterable[str]) -> None:
        """Erase these once the transaction is durable, not before."""
        self._doomed.extend(names)

    def committed(self) -> None:
        """The transaction is durable."""
        self._vault.erase(self._doomed)

    def rolled_back(self) -> None:
        """The transaction never happened."""
        self._vault.erase(self._written)
