"""All vector stores of a provider."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.local.faults import ApiFault, missing
from toolcrib.local.ids import new_id
from toolcrib.local.search.chunking import Chunking, chunks_of
from toolcrib.local.search.reading import Unreadable, read_document
from toolcrib.local.vector_stores.store import SCHEMA, StoreFile, VectorStore

if TYPE_CHECKING:
    from toolcrib.local.database import Database
    from toolcrib.local.files.shelf import FileShelf
    from toolcrib.local.search.index import TextIndex
    from toolcrib.store.store import Clock


class VectorStores:
    """Makes vector stores, and reads files into them while the client does other things."""

    def __init__(
        self, database: Database, index: TextIndex, files: FileShelf, clock: Clock
    ) -> None:
        self._database = database
        self.index = index
        self._files = files
        self._clock = clock
        self._reading: set[asyncio.Task[None]] = set()
        database.extend(SCHEMA)

    async def create(
        self, name: str, metadata: Mapping[str, str], expires_days: int | None
    ) -> VectorStore:
        """A new store without files."""
        now = int(self._clock())
        store = VectorStore(new_id("vs"), name, now, now, expires_days, metadata)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert into vector_stores values (?, ?, ?, ?, ?, ?)",
                (store.id, name, now, now, expires_days, json.dumps(dict(metadata))),
            )

        await self._database.ask(write)
        return store

    async def get(self, store_id: str, param: str | None = None) -> VectorStore:
        """A store. Raises `ApiFault`, also when it is over its time."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select * from vector_stores where id = ?", (store_id,)
            ).fetchone()
        )
        if row is None:
            raise missing("Vector store", store_id, param)
        store = VectorStore.of(row)
        if store.expires_at is not None and store.expires_at <= self._clock():
            raise ApiFault(400, f"Vector store '{store_id[:80]}' is expired.", param=param)
        return store

    async def list(self) -> list[VectorStore]:
        """All stores, the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from vector_stores order by created_at, rowid"
            ).fetchall()
        )
        return [VectorStore.of(row) for row in rows]

    async def change(
        self, store: VectorStore, *, name: str | None, metadata: Mapping[str, str] | None
    ) -> VectorStore:
        """Give a store another name or other metadata."""
        told = json.dumps(dict(store.metadata if metadata is None else metadata))

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_stores set name = ?, metadata = ? where id = ?",
                (store.name if name is None else name, told, store.id),
            )

        await self._database.ask(write)
        return await self.get(store.id)

    async def delete(self, store: VectorStore) -> None:
        """Let go of a store; its files stay."""
        for file in await self.files(store):
            await self.index.remove(store.id, file.file_id)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from vector_stores where id = ?", (store.id,))

        await self._database.ask(write)

    async def touch(self, store: VectorStore) -> None:
        """It was used."""
        now = int(self._clock())

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_stores set last_active_at = ? where id = ?", (now, store.id)
            )

        await self._database.ask(write)

    async def add(
        self,
        store: VectorStore,
        file_id: str,
        attributes: Mapping[str, str | float | bool],
        chunking: Chunking,
        batch_id: str | None = None,
    ) -> StoreFile:
        """Begin to read a file into a store. Raises `ApiFault`."""
        stored = await self._files.get(file_id, "file_id")
        file = StoreFile(
            store_id=store.id,
            file_id=file_id,
            filename=stored.filename,
            created_at=int(self._clock()),
            status="in_progress",
            bytes=0,
            error=None,
            attributes=attributes,
            chunking=chunking,
            batch_id=batch_id,
        )
        await self._database.ask(lambda connection: _put(connection, file))
        task = asyncio.create_task(self._read(file))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return file

    async def files(self, store: VectorStore) -> list[StoreFile]:
        """The files of a store, the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from vector_store_files where store_id = ? order by created_at, rowid",
                (store.id,),
            ).fetchall()
        )
        return [StoreFile.of(row) for row in rows]

    async def file(self, store: VectorStore, file_id: str) -> StoreFile:
        """One file of a store. Raises `ApiFault`."""
        for file in await self.files(store):
            if file.file_id == file_id:
                return file
        raise missing("File", file_id, "file_id")

    async def describe(self, file: StoreFile, attributes: Mapping[str, Any]) -> None:
        """Give a file other attributes."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_store_files set attributes = ? where store_id = ? and file_id = ?",
                (json.dumps(dict(attributes)), file.store_id, file.file_id),
            )

        await self._database.ask(write)

    async def remove(self, file: StoreFile) -> None:
        """Take a file out of a store; the file itself stays."""
        await self.index.remove(file.store_id, file.file_id)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "delete from vector_store_files where store_id = ? and file_id = ?",
                (file.store_id, file.file_id),
            )

        await self._database.ask(write)

    async def recover(self) -> None:
        """Read again what was being read when the provider last stopped."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from vector_store_files where status = 'in_progress'"
            ).fetchall()
        )
        for file in map(StoreFile.of, rows):
            task = asyncio.create_task(self._read(file))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def close(self) -> None:
        """Stop reading; it begins again with the next start."""
        for task in self._reading:
            task.cancel()
        if self._reading:
            await asyncio.wait(self._reading)

    async def _read(self, file: StoreFile) -> None:
        try:
            data = await self._files.read(file.file_id)
            chunks = await asyncio.to_thread(_chunked, file, data)
            await self.index.add(file.store_id, file.file_id, chunks)
        except (Unreadable, ApiFault) as error:
            await self._settle(file, "failed", 0, str(error))
        else:
            size = sum(len(chunk.encode()) for chunk in chunks)
            await self._settle(file, "completed", size, None)

    async def _settle(self, file: StoreFile, status: str, size: int, error: str | None) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_store_files set status = ?, bytes = ?, error = ? "
                "where store_id = ? and file_id = ?",
                (status, size, error, file.store_id, file.file_id),
            )

        await self._database.ask(write)


def _chunked(file: StoreFile, data: bytes) -> Sequence[str]:
    document = read_document(file.filename, data)
    return list(chunks_of(document.text, file.chunking))


def _put(connection: sqlite3.Connection, file: StoreFile) -> None:
    connection.execute(
        "insert or replace into vector_store_files values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            file.store_id,
            file.file_id,
            file.filename,
            file.created_at,
            file.status,
            file.bytes,
            file.error,
            json.dumps(dict(file.attributes)),
            file.chunking.most_tokens,
            file.chunking.overlap_tokens,
            file.batch_id,
        ),
    )
