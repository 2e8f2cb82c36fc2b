"""Uploaded files: their records in the database and their bytes in a folder under their ids, or all
of it in a store that replicas share.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from toolcrib.embedded.database import SweepInterval, new_id
from toolcrib.embedded.faults import invalid, missing
from toolcrib.errors import ApiFault
from toolcrib.vfs.names import safe_name

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.database import Database

MAX_BYTES: Final = 512 * 1024 * 1024
PURPOSES: Final = frozenset({"assistants", "batch", "fine-tune", "vision", "user_data", "evals"})
_SWEEP_SECONDS: Final = 60.0


DeletionListener: TypeAlias = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The record of an uploaded file."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    expires_at: int | None
    owner: str
    digest: str = ""
    """The SHA-256 of the bytes, in a store that replicas share."""

    @property
    def resource(self) -> dict[str, Any]:
        """The file as the API returns it."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.bytes,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
        }


class SharedFiles(Protocol):
    """Where uploaded files lie for all replicas. Its methods raise `ApiFault` when it fails."""

    async def put(self, stored: StoredFile, data: bytes) -> None:
        """Save a file."""
        ...

    async def record(self, file_id: str) -> StoredFile | None:
        """The record of a file; None when there is none."""
        ...

    async def read(self, stored: StoredFile) -> bytes:
        """The bytes of a file."""
        ...

    async def list(self, owner: str | None) -> list[StoredFile]:
        """The files of an owner, or without one all of them; the oldest first."""
        ...

    async def remove(self, stored: StoredFile) -> None:
        """Delete a file."""
        ...

    async def sweep(self) -> None:
        """Delete what no file needs any more."""
        ...


class FileRepository:
    """Stores uploaded files. An expired file counts as deleted, also before a sweep removes it.

    A file that the principal of a request may not see counts as missing.
    """

    def __init__(
        self, database: Database, folder: Path, clock: Clock, shared: SharedFiles | None = None
    ) -> None:
        self._shared = shared
        self._database = database
        self._folder = folder
        self._clock = clock
        self._sweeps = SweepInterval(clock, _SWEEP_SECONDS)
        self._deletion_listeners: list[DeletionListener] = []
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def on_deletion(self, tell: DeletionListener) -> None:
        """Call `tell` with the id of each file that is deleted or has expired."""
        self._deletion_listeners.append(tell)

    async def add(
        self,
        filename: str,
        data: bytes,
        purpose: str,
        access: ResourceAccess,
        *,
        seconds: int | None = None,
    ) -> StoredFile:
        """Store a file for the principal. Raises `ApiFault`."""
        if self._sweeps.has_elapsed():
            await self.sweep()
        if purpose not in PURPOSES:
            raise invalid(f"Unknown purpose: '{purpose[:80]}'.", "purpose")
        if len(data) > MAX_BYTES:
            raise ApiFault(413, f"The file is larger than {MAX_BYTES} bytes.", param="file")
        now = int(self._clock())
        expires_at = None if seconds is None else now + seconds
        stored = StoredFile(
            # What is shared lies at no place.
            self._database.new_id("file") if self._shared is None else new_id("file"),
            safe_name(filename),
            purpose,
            len(data),
            now,
            expires_at,
            access.owner,
        )
        if self._shared is not None:
            stored = replace(stored, digest=sha256(data).hexdigest())
            await self._shared.put(stored, data)
            return stored
        await asyncio.to_thread(write_whole, self._path(stored.id), data)
        await self._database.ask(lambda connection: _insert(connection, stored))
        return stored

    async def get(
        self, file_id: str, access: ResourceAccess, param: str | None = None
    ) -> StoredFile:
        """The record of a file. Raises `ApiFault`."""
        stored = await self.record(file_id, param)
        access.check(stored.owner, missing("File", file_id, param, here=self._database.place))
        return stored

    async def record(self, file_id: str, param: str | None = None) -> StoredFile:
        """The record of a file whose use was checked before: by `get`, or when it was added to a
        vector store. Raises `ApiFault` for one that is gone.
        """
        stored = await self._record(file_id)
        if stored is None or _is_over(stored, self._clock()):
            raise missing("File", file_id, param, here=self._database.place)
        return stored

    async def _record(self, file_id: str) -> StoredFile | None:
        if self._shared is not None:
            return await self._shared.record(file_id)
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select * from files where id = ?", (file_id,)
            ).fetchone()
        )
        return None if row is None else StoredFile(**dict(row))

    async def read(self, file_id: str, param: str | None = None) -> bytes:
        """The bytes of a file whose use was checked before. Raises `ApiFault` if it is gone."""
        stored = await self.record(file_id, param)
        return await asyncio.to_thread((await self.path(stored)).read_bytes)

    async def path(self, stored: StoredFile) -> Path:
        """Where the bytes of a file are on this machine; those of a shared file are fetched."""
        path = self._path(stored.id)
        if self._shared is not None and not path.exists():
            data = await self._shared.read(stored)
            await asyncio.to_thread(write_whole, path, data)
        return path

    async def list(self, owner: str | None, purpose: str | None = None) -> list[StoredFile]:
        """The files of an owner, or without one all of them; the oldest first."""
        now, files = self._clock(), await self._listed(owner)
        return [
            file for file in files if not _is_over(file, now) and purpose in (None, file.purpose)
        ]

    async def _listed(self, owner: str | None) -> list[StoredFile]:
        if self._shared is not None:
            return await self._shared.list(owner)
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from files where ? is null or owner = ? order by created_at, rowid",
                (owner, owner),
            ).fetchall()
        )
        return [StoredFile(**dict(row)) for row in rows]

    async def delete(self, file_id: str, access: ResourceAccess) -> None:
        """Delete a file. Raises `ApiFault`."""
        await self._remove(await self.get(file_id, access))

    async def sweep(self) -> None:
        """Delete the expired files."""
        now, files = self._clock(), await self._listed(None)
        for stored in files:
            if _is_over(stored, now):
                await self._remove(stored)
        if self._shared is not None:
            await self._shared.sweep()
            await asyncio.to_thread(self._forget_fetched, {stored.id for stored in files})

    def _forget_fetched(self, known: set[str]) -> None:
        """Delete what was fetched of files that were deleted at another replica."""
        for path in self._folder.iterdir():
            if path.name not in known and path.suffix != ".part":
                path.unlink(missing_ok=True)

    async def _remove(self, stored: StoredFile) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from files where id = ?", (stored.id,))

        if self._shared is None:
            await self._database.ask(write)
        else:
            await self._shared.remove(stored)
        with suppress(FileNotFoundError):
            self._path(stored.id).unlink()
        for tell in self._deletion_listeners:
            await tell(stored.id)

    def _path(self, file_id: str) -> Path:
        return self._folder / file_id


def _is_over(stored: StoredFile, now: float) -> bool:
    return stored.expires_at is not None and stored.expires_at <= now


def _insert(connection: sqlite3.Connection, stored: StoredFile) -> None:
    connection.execute(
        "insert into files values (?, ?, ?, ?, ?, ?, ?)",
        (
            stored.id,
            stored.filename,
            stored.purpose,
            stored.bytes,
            stored.created_at,
            stored.expires_at,
            stored.owner,
        ),
    )


def write_whole(path: Path, data: bytes) -> None:
    """Write atomically: after a crash the file is complete or missing."""
    new = path.with_suffix(".part")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
