"""The files of containers, uploaded by clients or written by code."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.embedded.containers.container import ContainerFile
from toolcrib.embedded.containers.interpreter import FIGURES, WORK_AT
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid, missing
from toolcrib.errors import ApiFault
from toolcrib.sandbox.command import MEBIBYTE
from toolcrib.sandbox.work_directory import WorkDirectory
from toolcrib.vfs.names import safe_name

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.containers.container import Container
    from toolcrib.embedded.database import Database

MAX_FILE_BYTES: Final = 128 * MEBIBYTE
MAX_NOTED: Final = 200
"""Files that one call reports as new. The next call reports the others."""

_Found = tuple[str, int, str]


class ContainerFiles:
    """Reads and writes the files of containers, never through a symbolic link."""

    def __init__(self, database: Database, folder: Path, clock: Clock) -> None:
        self._database = database
        self._folder = folder
        self._clock = clock

    def work(self, container: Container) -> WorkDirectory:
        """The work directory of a container."""
        return WorkDirectory.at(self._folder / container.id)

    def has_any(self, container: Container) -> bool:
        """Whether the container has a folder on disk."""
        return (self._folder / container.id).exists()

    async def put(
        self, container: Container, filename: str, data: bytes, source: str = "user"
    ) -> ContainerFile:
        """Write a file into a container. Raises `ApiFault`."""
        if len(data) > MAX_FILE_BYTES:
            raise ApiFault(413, f"The file is larger than {MAX_FILE_BYTES} bytes.", param="file")
        name = safe_name(filename)
        try:
            await asyncio.to_thread(self.work(container).write, name, data)
        except OSError as error:
            raise invalid(f"The file cannot be written: {error.strerror}.", "file") from None
        [noted] = await self._note(container, [_found(name, data)], source)
        return noted

    async def list(self, container: Container) -> list[ContainerFile]:
        """The known files of a container, the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from container_files where container_id = ? order by created_at, rowid",
                (container.id,),
            ).fetchall()
        )
        return [ContainerFile(**dict(row)) for row in rows]

    async def get(self, container: Container, file_id: str) -> ContainerFile:
        """One file of a container. Raises `ApiFault`."""
        for file in await self.list(container):
            if file.id == file_id:
                return file
        raise missing("Container file", file_id)

    async def read(self, container: Container, file: ContainerFile) -> bytes:
        """The bytes of a file. Raises `ApiFault` if code has deleted it."""
        try:
            return await asyncio.to_thread(self.work(container).read, file.name, MAX_FILE_BYTES)
        except OSError:
            raise missing("Container file", file.id) from None

    async def remove(self, container: Container, file: ContainerFile) -> None:
        """Remove a file from a container. Raises `ApiFault`."""
        try:
            with suppress(FileNotFoundError):
                await asyncio.to_thread(self.work(container).delete, file.name)
        except OSError as error:
            raise ApiFault(409, f"The file cannot be removed: {error.strerror}.") from None
        await self._forget(container, [file.path])

    async def remove_all(self, container: Container) -> None:
        """Remove the whole folder."""
        if self.has_any(container):
            await asyncio.to_thread(self.work(container).remove)
        await self._forget(container, [file.path for file in await self.list(container)])

    async def changed(self, container: Container) -> list[ContainerFile]:
        """Compare the folder with the records after code has run; returns new and changed files."""
        known = {file.path: file.digest for file in await self.list(container)}
        present = await asyncio.to_thread(_look_at, self.work(container))
        news = [
            (name, size, digest)
            for name, size, digest in present
            if known.get(f"{WORK_AT}/{name}") != digest
        ]
        gone = set(known) - {f"{WORK_AT}/{name}" for name, _, _ in present}
        await self._forget(container, list(gone))
        return await self._note(container, news[:MAX_NOTED], "assistant")

    async def keep_figure(self, container: Container, figure: str) -> tuple[ContainerFile, bytes]:
        """Store a figure that code drew as a file. Returns its record and its bytes.

        Raises `OSError` if the figure is missing or no regular file.
        """
        work = self.work(container)
        data = await asyncio.to_thread(work.read, figure, MAX_FILE_BYTES)
        await asyncio.to_thread(work.delete, figure)
        name = f"{new_id('figure')[:19]}.png"
        return await self.put(container, name, data, "assistant"), data

    async def _note(
        self, container: Container, entries: Sequence[_Found], source: str
    ) -> list[ContainerFile]:
        """Record files. A changed file gets a new id, so that an old citation stays true."""
        now = int(self._clock())
        noted = [
            ContainerFile(
                id=new_id("cfile"),
                container_id=container.id,
                path=f"{WORK_AT}/{name}",
                bytes=size,
                source=source,
                digest=digest,
                created_at=now,
            )
            for name, size, digest in entries
        ]
        await self._database.ask(lambda connection: _insert(connection, noted))
        return noted

    async def _forget(self, container: Container, paths: Sequence[str]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "delete from container_files where container_id = ? and path = ?",
                [(container.id, path) for path in paths],
            )

        if paths:
            await self._database.ask(write)


def _look_at(work: WorkDirectory) -> list[_Found]:
    entries: list[_Found] = []
    for file in work.files():
        # A name that is not printable text cannot be sent to a client.
        if file.name.startswith(f"{FIGURES}/") or not file.name.isprintable():
            continue
        try:
            entries.append(_found(file.name, work.read(file.name, MAX_FILE_BYTES)))
        except OSError:
            continue
    return entries


def _found(name: str, data: bytes) -> _Found:
    return name, len(data), hashlib.sha256(data).hexdigest()


def _insert(connection: sqlite3.Connection, files: Sequence[ContainerFile]) -> None:
    connection.executemany(
        "insert or replace into container_files values (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                file.id,
                file.container_id,
                file.path,
                file.bytes,
                file.source,
                file.digest,
                file.created_at,
            )
            for file in files
        ],
    )
