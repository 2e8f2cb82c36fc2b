"""The files of vector stores, indexed in the background."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from toolcrib.embedded.faults import missing
from toolcrib.embedded.search.documents import chunks_of
from toolcrib.embedded.vector_stores.store import VectorStore, VectorStoreFile
from toolcrib.errors import ApiFault, UnreadableDocument

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.file_repository import FileRepository
    from toolcrib.embedded.search.documents import Chunking, Document
    from toolcrib.embedded.search.index import TextIndex
    from toolcrib.embedded.search.reader import DocumentReader
    from toolcrib.embedded.vector_stores.store import FileStatus

logger = logging.getLogger(__name__)


class VectorStoreFiles:
    """Adds files to stores and indexes them in background tasks.

    A file is `in_progress` until its task ends. The task changes the status only if it still is,
    so a file that was removed or cancelled meanwhile stays so. The files of one owner are read and
    indexed one after another: whoever adds many holds up nobody else.
    """

    def __init__(
        self,
        database: Database,
        index: TextIndex,
        uploads: FileRepository,
        reader: DocumentReader,
        clock: Clock,
    ) -> None:
        self._database = database
        self._index = index
        self._uploads = uploads
        self._reader = reader
        self._clock = clock
        self._reading: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def check(self, file_id: str, access: ResourceAccess) -> None:
        """Raises `ApiFault` when there is no such file."""
        await self._uploads.get(file_id, access, "file_id")

    async def add(
        self,
        store: VectorStore,
        file_id: str,
        access: ResourceAccess,
        attributes: Mapping[str, str | float | bool],
        chunking: Chunking,
        batch_id: str | None = None,
    ) -> VectorStoreFile:
        """Add a file to a store and start to index it. Raises `ApiFault`."""
        stored = await self._uploads.get(file_id, access, "file_id")
        file = VectorStoreFile(
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
        self._begin(file)
        return file

    async def list(self, store: VectorStore) -> list[VectorStoreFile]:
        """The files of a store, the oldest first."""
        return await self._where("store_id = ?", store.id)

    async def get(self, store: VectorStore, file_id: str) -> VectorStoreFile:
        """One file of a store. Raises `ApiFault`."""
        files = await self._where("store_id = ? and file_id = ?", store.id, file_id)
        if not files:
            raise missing("File", file_id, "file_id")
        return files[0]

    async def text(self, file: VectorStoreFile) -> str:
        """The text of a file. Raises `ApiFault`."""
        try:
            return (await self._document(file)).text
        except UnreadableDocument as error:
            raise ApiFault(400, f"The file cannot be read: {error}.", param="file_id") from None

    async def describe(
        self, file: VectorStoreFile, attributes: Mapping[str, Any]
    ) -> VectorStoreFile:
        """Replace the attributes of a file."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_store_files set attributes = ? where store_id = ? and file_id = ?",
                (json.dumps(dict(attributes)), file.store_id, file.file_id),
            )

        await self._database.ask(write)
        return replace(file, attributes=attributes)

    async def cancel(self, files: Sequence[VectorStoreFile]) -> None:
        """Cancel the files that are still being indexed."""
        for file in files:
            if file.status == "in_progress":
                await self._settle(file, "cancelled", 0, None)

    async def remove(self, file: VectorStoreFile) -> None:
        """Remove a file from a store; the uploaded file stays."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "delete from vector_store_files where store_id = ? and file_id = ?",
                (file.store_id, file.file_id),
            )

        await self._database.ask(write)
        await self._index.remove(file.store_id, file.file_id)

    async def forget(self, file_id: str) -> None:
        """Remove a deleted file from every store."""
        for file in await self._where("file_id = ?", file_id):
            await self.remove(file)

    async def recover(self) -> None:
        """Index the files again that were being indexed when the provider stopped."""
        for file in await self._where("status = 'in_progress'"):
            self._begin(file)

    async def close(self) -> None:
        """Stop indexing; the next start resumes it."""
        for task in self._reading:
            task.cancel()
        if self._reading:
            await asyncio.wait(self._reading)

    def _begin(self, file: VectorStoreFile) -> None:
        task = asyncio.create_task(self._read(file))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, file: VectorStoreFile) -> None:
        try:
            owner = (await self._uploads.record(file.file_id)).owner
            turn = self._turns.setdefault(owner, asyncio.Lock())
            async with turn:
                document = await self._document(file)
                chunks = await asyncio.to_thread(list, chunks_of(document.text, file.chunking))
                await self._index.add(file.store_id, file.file_id, chunks)
        except (UnreadableDocument, ApiFault) as error:
            await self._settle(file, "failed", 0, str(error))
        except Exception:
            logger.exception("file %s could not be read", file.file_id)
            await self._settle(file, "failed", 0, "the provider could not read it; see its log")
        else:
            size = sum(len(chunk.encode()) for chunk in chunks)
            if not await self._settle(file, "completed", size, None):
                # The file was removed or cancelled while it was indexed.
                await self._index.remove(file.store_id, file.file_id)

    async def _document(self, file: VectorStoreFile) -> Document:
        """Read a file. Raises `UnreadableDocument` or `ApiFault`."""
        stored = await self._uploads.record(file.file_id, "file_id")
        path = await self._uploads.path(stored)
        return await self._reader.read(file.filename, path, stored.owner)

    async def _settle(
        self, file: VectorStoreFile, status: FileStatus, size: int, error: str | None
    ) -> bool:
        """Set the last status of a file; False if it is no longer in progress."""

        def write(connection: sqlite3.Connection) -> bool:
            changed = connection.execute(
                "update vector_store_files set status = ?, bytes = ?, error = ? "
                "where store_id = ? and file_id = ? and status = 'in_progress'",
                (status, size, error, file.store_id, file.file_id),
            )
            return changed.rowcount == 1

        return await self._database.ask(write)

    async def _where(self, condition: str, *values: str) -> list[VectorStoreFile]:
        rows = await self._database.ask(
            lambda connection: connection.execute(
                f"select * from vector_store_files where {condition} order by created_at, rowid",
                values,
            ).fetchall()
        )
        return [VectorStoreFile.of(row) for row in rows]


def _put(connection: sqlite3.Connection, file: VectorStoreFile) -> None:
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
