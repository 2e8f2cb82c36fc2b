"""What is known of the pages of a folder, so that only those that changed are read again."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolcrib.local.database import Database

SCHEMA: Final = """
create table if not exists web_pages (
    collection text not null,
    url text not null,
    title text not null,
    digest text not null,
    primary key (collection, url)
);
"""


@dataclass(frozen=True, slots=True)
class SavedPage:
    """A page that is in the index, and the file that it was saved in."""

    url: str
    path: Path
    title: str
    digest: str


class KnownPages:
    """The pages of one collection that are in the index, with the digest of each."""

    def __init__(self, database: Database, collection: str) -> None:
        self._database = database
        self._collection = collection
        database.extend(SCHEMA)

    async def all(self) -> dict[str, tuple[str, str]]:
        """Title and digest, by address."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from web_pages where collection = ?", (self._collection,)
            ).fetchall()
        )
        return {row["url"]: (row["title"], row["digest"]) for row in rows}

    async def note(self, page: SavedPage) -> None:
        """The page is in the index as it is now."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert or replace into web_pages values (?, ?, ?, ?)",
                (self._collection, page.url, page.title, page.digest),
            )

        await self._database.ask(write)

    async def forget(self, url: str) -> None:
        """The page is no longer in the index."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "delete from web_pages where collection = ? and url = ?", (self._collection, url)
            )

        await self._database.ask(write)
