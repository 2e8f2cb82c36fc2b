"""Search in a folder of saved pages; only pages that have changed are indexed again."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from toolcrib.embedded.search.documents import SUPPORTED, Chunking, chunks_of
from toolcrib.embedded.search.index import TextIndex
from toolcrib.embedded.web.source import Domains, WebPage
from toolcrib.errors import UnreadableDocument, UsageError, WebUnavailable
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.search.embedder import Embedder
    from toolcrib.embedded.search.reader import DocumentReader, DocumentSeries


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
    """An indexed page and its file."""

    url: str
    path: Path
    title: str
    digest: str


class PageRepository:
    """The indexed pages of one collection, with their digests."""

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
        """Record that a page was indexed."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert or replace into web_pages values (?, ?, ?, ?)",
                (self._collection, page.url, page.title, page.digest),
            )

        await self._database.ask(write)

    async def forget(self, url: str) -> None:
        """Remove the record of a page."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "delete from web_pages where collection = ? and url = ?", (self._collection, url)
            )

        await self._database.ask(write)


MAX_PAGES: Final = 50_000
MAX_BYTES: Final = 16 * 1024 * 1024
_CHUNKING: Final = Chunking(300, 60)
_MANY: Final = 5
"""Chunks per wanted page: several may belong to one page."""


class WebFolder:
    """The pages below `folder`. A file `a/b.html` is the page `base_url/a/b.html`; an `index.html`
    is its folder. Links out of the folder are not followed. Pages are read when they are first
    searched; pages that have changed since the last search are indexed again.
    """

    is_external = False

    def __init__(self, folder: str | os.PathLike[str], base_url: str) -> None:
        if find_spec("lxml") is None:
            raise UsageError(f"a folder of pages needs lxml; run: {install_command('search')}")
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise UsageError(f"there is no folder {str(folder)!r} to search")
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(f"base_url must begin with http:// or https://, not {base_url!r}")
        self._base = base_url.rstrip("/")
        self._place: tuple[TextIndex, PageRepository, DocumentReader] | None = None
        self._pages: dict[str, SavedPage] = {}
        self._loading = asyncio.Lock()

    def use(self, database: Database, embedder: Embedder | None, reader: DocumentReader) -> None:
        """Store the index in this database, and read pages with this reader."""
        pages = PageRepository(database, self._collection)
        self._place = TextIndex(database, embedder), pages, reader
        self._pages = {}
        self._loading = asyncio.Lock()

    async def search(self, query: str, most: int, domains: Domains) -> Sequence[WebPage]:
        """The pages that match best, each once."""
        index, _ = await self._loaded()
        admitted = {url for url in self._pages if domains.admit(url)}
        hits = await index.search(self._collection, query, most * _MANY, documents=admitted)
        best: dict[str, WebPage] = {}
        for hit in hits:
            best.setdefault(
                hit.document, WebPage(hit.document, self._pages[hit.document].title, hit.text)
            )
        return list(best.values())[:most]

    async def open(self, url: str) -> WebPage | None:
        """A page of the folder, as it is now."""
        _, reader = await self._loaded()
        saved = self._pages.get(url.partition("#")[0])
        if saved is None:
            return None
        try:
            document = await reader.read(saved.path.name, saved.path, self._collection)
        except UnreadableDocument:
            return None
        return WebPage(saved.url, saved.title, document.text)

    @property
    def _collection(self) -> str:
        return f"web {self._folder}"

    async def _loaded(self) -> tuple[TextIndex, DocumentReader]:
        if self._place is None:
            raise UsageError("this folder is not part of a started provider")
        index, known, reader = self._place
        async with self._loading:
            if not self._pages:
                async with reader.series() as series:
                    self._pages = await self._brought_up_to_date(index, known, series)
        if not self._pages:
            raise WebUnavailable("the folder has no readable pages")
        return index, reader

    async def _brought_up_to_date(
        self, index: TextIndex, known: PageRepository, series: DocumentSeries
    ) -> dict[str, SavedPage]:
        """Index new and changed pages and remove deleted ones; returns all readable pages."""
        before = await known.all()
        model = index.embedder.name if index.embedder else ""
        pages: dict[str, SavedPage] = {}
        for path in await asyncio.to_thread(lambda: list(self._files())):
            url, digest = self._url(path), await asyncio.to_thread(_digest, path, model)
            title, old = before.get(url, ("", None))
            if old != digest:
                try:
                    document = await series.read(path.name, path)
                except UnreadableDocument:
                    continue
                title = document.title or url
                await index.add(self._collection, url, list(chunks_of(document.text, _CHUNKING)))
                await known.note(SavedPage(url, path, title, digest))
            pages[url] = SavedPage(url, path, title, digest)
        for url in before.keys() - pages.keys():
            await index.remove(self._collection, url)
            await known.forget(url)
        return pages

    def _url(self, path: Path) -> str:
        url = f"{self._base}/{quote(path.relative_to(self._folder).as_posix())}"
        return url.removesuffix("index.html") if path.name == "index.html" else url

    def _files(self) -> Iterator[Path]:
        count = 0
        for parent, folders, names in os.walk(self._folder, followlinks=False):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                if path.suffix.lower() in SUPPORTED and _is_plain(path):
                    count += 1
                    if count > MAX_PAGES:
                        return
                    yield path


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= MAX_BYTES


def _digest(path: Path, model: str) -> str:
    """A digest of the page and of how it is indexed; empty if the file is gone."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(f"{model} {_CHUNKING}\n".encode() + data).hexdigest()
