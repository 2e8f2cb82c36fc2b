"""A folder of pages, searched as if it were the site that it was saved from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from toolcrib.errors import UsageError
from toolcrib.local.search.chunking import Chunking, chunks_of
from toolcrib.local.search.index import TextIndex
from toolcrib.local.search.reading import SUPPORTED, Document, Unreadable, read_document
from toolcrib.local.web.source import Domains, Page

if TYPE_CHECKING:
    from toolcrib.local.database import Database
    from toolcrib.local.search.embedding import Embedder

MOST_PAGES: Final = 50_000
MOST_BYTES: Final = 16 * 1024 * 1024
_CHUNKING: Final = Chunking(300, 60)
_MANY: Final = 5
"""Chunks that are looked at for every page that is wanted: some are of the same page."""


class WebFolder:
    """The pages below `folder`. A file `a/b.html` is the page `base_url/a/b.html`; an `index.html`
    is also its folder. Links out of the folder are not followed.
    """

    is_external = False

    def __init__(self, folder: str | os.PathLike[str], base_url: str) -> None:
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise UsageError(f"there is no folder {str(folder)!r} to search")
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(f"base_url must begin with http:// or https://, not {base_url!r}")
        self._base = base_url.rstrip("/")
        self._index: TextIndex | None = None
        self._pages: dict[str, Document] = {}
        self._loading = asyncio.Lock()

    def use(self, database: Database, embedder: Embedder | None) -> None:
        """Keep the index there."""
        self._index = TextIndex(database, embedder)

    async def search(self, query: str, most: int, domains: Domains) -> Sequence[Page]:
        """Pages whose text fits, each once."""
        index = await self._loaded()
        admitted = {url for url in self._pages if domains.admit(url)}
        hits = await index.search(self._collection, query, most * _MANY, documents=admitted)
        best: dict[str, Page] = {}
        for hit in hits:
            title = self._pages[hit.document].title or hit.document
            best.setdefault(hit.document, Page(hit.document, title, hit.text))
        return list(best.values())[:most]

    async def open(self, url: str) -> Page | None:
        """A page of the folder."""
        await self._loaded()
        document = self._pages.get(url.partition("#")[0])
        return None if document is None else Page(url, document.title or url, document.text)

    @property
    def _collection(self) -> str:
        return f"web {self._folder}"

    async def _loaded(self) -> TextIndex:
        """The index of all pages, made when it is first needed."""
        if self._index is None:
            raise UsageError("this folder belongs to no provider")
        async with self._loading:
            if not self._pages:
                self._pages = await asyncio.to_thread(self._read)
                for url, document in self._pages.items():
                    chunks = list(chunks_of(document.text, _CHUNKING))
                    await self._index.add(self._collection, url, chunks)
        return self._index

    def _read(self) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for path in self._files():
            try:
                document = read_document(path.name, path.read_bytes())
            except (Unreadable, OSError):
                continue
            name = path.relative_to(self._folder).as_posix()
            url = f"{self._base}/{quote(name)}"
            found[url.removesuffix("index.html")] = document
        if not found:
            raise UsageError(f"there is no page that can be read in {str(self._folder)!r}")
        return found

    def _files(self) -> Iterator[Path]:
        count = 0
        for parent, folders, names in os.walk(self._folder, followlinks=False):
            folders.sort()
            for name in sorted(names):
                path = Path(parent, name)
                if path.suffix.lower() in SUPPORTED and _is_plain(path):
                    count += 1
                    if count > MOST_PAGES:
                        return
                    yield path


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= MOST_BYTES
