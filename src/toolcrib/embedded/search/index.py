"""The search index: full-text search over chunks, and vector search with an embedder."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.search.embedder import Embedder

SCHEMA: Final = """
create table if not exists chunks (
    id integer primary key,
    collection text not null,
    document text not null,
    place integer not null,
    text text not null,
    vector blob,
    model text
);
create index if not exists chunks_by_document on chunks (collection, document);
create virtual table if not exists chunk_words using fts5 (
    text, content = 'chunks', content_rowid = 'id', tokenize = 'porter unicode61'
);
create trigger if not exists chunks_in after insert on chunks begin
    insert into chunk_words (rowid, text) values (new.id, new.text);
end;
create trigger if not exists chunks_out after delete on chunks begin
    insert into chunk_words (chunk_words, rowid, text) values ('delete', old.id, old.text);
end;
"""

_WORD: Final = re.compile(r"\w+")
_MAX_WORDS: Final = 64
_BATCH: Final = 128
"""Chunks that are written in one transaction."""
_COMMON_WORDS: Final = """
a an and are as at be by do does for from has have how i in is it its me my of on or our so that
the their them they this to was we were what when where which who why will with you your
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class RankWeights:
    """The weights of full-text and vector search. Without an embedder they have no effect."""

    text: float = 0.3
    meaning: float = 0.7


DEFAULT_RANK_WEIGHTS: Final = RankWeights()


@dataclass(frozen=True, slots=True)
class ChunkMatch:
    """A matching chunk. The score, from 0 to 1, only orders matches."""

    chunk_id: int
    collection: str
    document: str
    place: int
    text: str
    score: float


class TextIndex:
    """Stores the chunks of documents in collections and searches them."""

    def __init__(self, database: Database, embedder: Embedder | None = None) -> None:
        self._database = database
        self.embedder = embedder
        self._known: dict[str, tuple[int, list[int], list[str], Any]] = {}
        self._versions: dict[str, int] = {}
        database.extend(SCHEMA)

    async def add(self, collection: str, document: str, chunks: Sequence[str]) -> None:
        """Add a document, replacing one of the same name. Meanwhile searches find a part of it:
        other work gets its turn between two batches of chunks.
        """
        await self._remove_all(collection, document)
        for start in range(0, len(chunks), _BATCH):
            await self._add_batch(collection, document, start, chunks[start : start + _BATCH])
        self._changed(collection)

    async def _add_batch(
        self, collection: str, document: str, start: int, chunks: Sequence[str]
    ) -> None:
        vectors: Sequence[bytes | None] = [None] * len(chunks)
        if self.embedder is not None:
            vectors = await asyncio.to_thread(self.embedder.embed, chunks)
        model = self.embedder.name if self.embedder else None

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "insert into chunks (collection, document, place, text, vector, model) "
                "values (?, ?, ?, ?, ?, ?)",
                [
                    (collection, document, place, text, vector, model)
                    for place, (text, vector) in enumerate(
                        zip(chunks, vectors, strict=True), start=start
                    )
                ],
            )

        await self._database.ask(write)

    async def remove(self, collection: str, document: str) -> None:
        """Remove a document."""
        await self._remove_all(collection, document)
        self._changed(collection)

    async def _remove_all(self, collection: str, document: str) -> None:
        def remove_batch(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "delete from chunks where id in (select id from chunks "
                "where collection = ? and document = ? limit ?)",
                (collection, document, _BATCH),
            ).rowcount

        while await self._database.ask(remove_batch) == _BATCH:
            pass

    async def search(
        self,
        collection: str,
        query: str,
        most: int,
        *,
        documents: Collection[str] | None = None,
        weights: RankWeights = DEFAULT_RANK_WEIGHTS,
    ) -> list[ChunkMatch]:
        """The best chunks, best first. With `documents`, only chunks of those."""
        words = await self._by_words(collection, query, documents)
        if self.embedder is None:
            scores = fused(((words, 1.0),))
        else:
            near = await self._by_meaning(collection, query, documents)
            scores = fused(((words, weights.text), (near, weights.meaning)))
        best = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:most]
        return await self._database.ask(lambda connection: _hits(connection, best, scores))

    async def _by_words(
        self, collection: str, query: str, documents: Collection[str] | None
    ) -> list[int]:
        match = words_query(query)
        if match is None:
            return []
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select chunks.id, chunks.document "
                "from chunk_words join chunks on chunks.id = chunk_words.rowid "
                "where chunk_words match ? and collection = ? order by bm25(chunk_words) limit ?",
                (match, collection, _CANDIDATES if documents is None else -1),
            ).fetchall()
        )
        matches = [row for row in rows if documents is None or row["document"] in documents]
        return [row["id"] for row in matches[:_CANDIDATES]]

    async def _by_meaning(
        self, collection: str, query: str, documents: Collection[str] | None
    ) -> list[int]:
        import numpy as np

        assert self.embedder is not None, "meaning needs a model"
        ids, names, matrix = await self._matrix(collection)
        if not ids:
            return []
        [vector] = await asyncio.to_thread(self.embedder.embed, [query])
        likeness = matrix @ np.frombuffer(vector, dtype="<f4")
        order = [int(place) for place in np.argsort(-likeness)]
        passing = [place for place in order if documents is None or names[place] in documents]
        return [ids[place] for place in passing[:_CANDIDATES]]

    async def _matrix(self, collection: str) -> tuple[list[int], list[str], Any]:
        """All vectors of a collection, cached until the collection changes."""
        import numpy as np

        assert self.embedder is not None, "meaning needs a model"
        version = self._versions.get(collection, 0)
        known = self._known.get(collection)
        if known is not None and known[0] == version:
            return known[1:]
        model = self.embedder.name
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select id, document, vector from chunks where collection = ? and model = ?",
                (collection, model),
            ).fetchall()
        )
        matrix = np.frombuffer(b"".join(row["vector"] for row in rows), dtype="<f4")
        vectors = (
            [row["id"] for row in rows],
            [row["document"] for row in rows],
            matrix.reshape(len(rows), self.embedder.size),
        )
        while len(self._known) >= _MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[collection] = (version, *vectors)
        return vectors

    def _changed(self, collection: str) -> None:
        self._versions[collection] = self._versions.get(collection, 0) + 1
        self._known.pop(collection, None)


_CANDIDATES: Final = 100
_MAX_KNOWN: Final = 16
"""Collections whose vectors are cached."""

_STEADY: Final = 20
"""The smoothing of ranks: the larger, the less the first ranks stand out."""


def fused(rankings: Sequence[tuple[Sequence[int], float]]) -> dict[int, float]:
    """Fuse weighted rankings by reciprocal rank; scores are from 0 to 1."""
    total = sum(weight for _, weight in rankings) or 1.0
    scores: dict[int, float] = {}
    for ranking, weight in rankings:
        for place, chunk in enumerate(ranking):
            part = weight / total * (_STEADY + 1) / (_STEADY + 1 + place)
            scores[chunk] = scores.get(chunk, 0.0) + part
    return scores


def words_query(query: str) -> str | None:
    """An FTS5 query for any of the words; None without words."""
    words = [word.lower() for word in _WORD.findall(query)]
    telling = [word for word in words if word not in _COMMON] or words
    distinct = list(dict.fromkeys(telling))[:_MAX_WORDS]
    return " OR ".join(f'"{word}"' for word in distinct) or None


def _hits(
    connection: sqlite3.Connection, chunks: Sequence[int], scores: dict[int, float]
) -> list[ChunkMatch]:
    matches: list[ChunkMatch] = []
    for chunk in chunks:
        row = connection.execute("select * from chunks where id = ?", (chunk,)).fetchone()
        if row is not None:
            matches.append(
                ChunkMatch(
                    chunk,
                    row["collection"],
                    row["document"],
                    row["place"],
                    row["text"],
                    scores[chunk],
                )
            )
    return matches
