"""The vector stores of a provider."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.database import SweepInterval
from toolcrib.embedded.faults import missing
from toolcrib.embedded.vector_stores.files import VectorStoreFiles
from toolcrib.embedded.vector_stores.store import SCHEMA, VectorStore
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.file_repository import FileRepository
    from toolcrib.embedded.search.index import TextIndex
    from toolcrib.embedded.search.reader import DocumentReader

_SWEEP_SECONDS: Final = 3600.0


class VectorStoreRepository:
    """Creates vector stores. `files` are the files in them, `index` is their search index.

    A store that the principal of a request may not see counts as missing.
    """

    def __init__(
        self,
        database: Database,
        index: TextIndex,
        uploads: FileRepository,
        reader: DocumentReader,
        clock: Clock,
    ) -> None:
        database.extend(SCHEMA)
        self._database = database
        self._clock = clock
        self._sweeps = SweepInterval(clock, _SWEEP_SECONDS)
        self.index = index
        self.files = VectorStoreFiles(database, index, uploads, reader, clock)
        uploads.on_deletion(self.files.forget)

    async def create(
        self,
        name: str,
        metadata: Mapping[str, str],
        expires_days: int | None,
        access: ResourceAccess,
    ) -> VectorStore:
        """Create an empty store for the principal."""
        if self._sweeps.has_elapsed():
            await self.sweep()
        now = int(self._clock())
        store = VectorStore(
            self._database.new_id("vs"), name, now, now, expires_days, metadata, access.owner
        )

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert into vector_stores values (?, ?, ?, ?, ?, ?, ?)",
                (store.id, name, now, now, expires_days, json.dumps(dict(metadata)), store.owner),
            )

        await self._database.ask(write)
        return store

    async def get(
        self, store_id: str, access: ResourceAccess, param: str | None = None
    ) -> VectorStore:
        """A store, over its time or not. Raises `ApiFault`."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select * from vector_stores where id = ?", (store_id,)
            ).fetchone()
        )
        if row is None:
            raise missing("Vector store", store_id, param, here=self._database.place)
        store = VectorStore.of(row)
        access.check(
            store.owner, missing("Vector store", store_id, param, here=self._database.place)
        )
        return store

    async def use(
        self, store_id: str, access: ResourceAccess, param: str | None = None
    ) -> VectorStore:
        """A store to work with. Raises `ApiFault`, also when it is over its time."""
        store = await self.get(store_id, access, param)
        if store.is_expired(self._clock()):
            raise ApiFault(400, f"Vector store '{store_id[:80]}' is expired.", param=param)
        return store

    async def list(self, owner: str | None) -> list[VectorStore]:
        """The stores of an owner, or without one all of them; the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from vector_stores where ? is null or owner = ? "
                "order by created_at, rowid",
                (owner, owner),
            ).fetchall()
        )
        return [VectorStore.of(row) for row in rows]

    async def resource(self, store: VectorStore) -> dict[str, Any]:
        """A store as clients see it now."""
        return store.resource(await self.files.list(store), self._clock())

    async def change(self, store: VectorStore) -> None:
        """Keep a store under its id with another name, other metadata or another time."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_stores set name = ?, metadata = ?, expires_days = ? where id = ?",
                (store.name, json.dumps(dict(store.metadata)), store.expires_days, store.id),
            )

        await self._database.ask(write)

    async def delete(self, store: VectorStore) -> None:
        """Delete a store; the uploaded files stay."""
        await self._empty(store)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from vector_stores where id = ?", (store.id,))

        await self._database.ask(write)

    async def touch(self, store: VectorStore) -> VectorStore:
        """Start the idle time of a store anew."""
        now = int(self._clock())

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update vector_stores set last_active_at = ? where id = ?", (now, store.id)
            )

        await self._database.ask(write)
        return replace(store, last_active_at=now)

    async def sweep(self) -> None:
        """Remove the files of expired stores; their records stay."""
        now = self._clock()
        for store in await self.list(None):
            if store.is_expired(now):
                await self._empty(store)

    async def recover(self) -> None:
        """Resume the indexing that a stop interrupted."""
        await self.files.recover()

    async def close(self) -> None:
        """Stop indexing; the next start resumes it."""
        await self.files.close()

    async def _empty(self, store: VectorStore) -> None:
        for file in await self.files.list(store):
            await self.files.remove(file)
