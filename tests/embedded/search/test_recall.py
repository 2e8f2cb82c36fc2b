"""How well searches find what is meant. The set beside this file is small, and no weight was fitted
to it. Each query has one document that answers it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from toolcrib.embedded.database import Database
from toolcrib.embedded.search.embedder import MiniLmEmbedder
from toolcrib.embedded.search.index import TextIndex

RECALL = Path(__file__).with_name("recall")
AT = 5
CHUNKS = 10_000
MAX_SECONDS = 0.020


@dataclass(frozen=True, slots=True)
class Wanted:
    kind: str
    document: str
    query: str


def rows(name: str) -> list[list[str]]:
    lines = (RECALL / name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines]


DOCUMENTS = {name: text for name, text in rows("documents.tsv")}
WANTED = [Wanted(kind, document, query) for kind, document, query in rows("queries.tsv")]


async def filled(embedder: MiniLmEmbedder | None) -> TextIndex:
    index = TextIndex(Database(None), embedder)
    for name, text in DOCUMENTS.items():
        await index.add("handbook", name, [text])
    return index


async def recall(index: TextIndex, kind: str) -> float:
    """How often the right document is among the first five."""
    asked = [each for each in WANTED if each.kind == kind]
    found = 0
    for each in asked:
        hits = await index.search("handbook", each.query, AT)
        found += each.document in [hit.document for hit in hits]
    return found / len(asked)


def test_the_set_is_whole() -> None:
    """Every query asks for a document that there is, and there are enough of both."""
    assert {each.document for each in WANTED} <= set(DOCUMENTS)
    assert len(DOCUMENTS) >= 60
    assert sum(each.kind == "paraphrase" for each in WANTED) >= 24
    assert len({each.query for each in WANTED}) == len(WANTED)


async def test_meaning_finds_clearly_more_than_words(capsys: pytest.CaptureFixture[str]) -> None:
    """With the model, far more paraphrases find their document, and keywords lose nothing."""
    words, hybrid = await filled(None), await filled(MiniLmEmbedder())
    by_words = {kind: await recall(words, kind) for kind in ("paraphrase", "keyword")}
    by_both = {kind: await recall(hybrid, kind) for kind in ("paraphrase", "keyword")}
    with capsys.disabled():
        for name, found in (("FTS5 alone", by_words), ("hybrid", by_both)):
            print(
                f"\nrecall@{AT}, {name}: paraphrases {found['paraphrase']:.3f}, "
                f"keywords {found['keyword']:.3f}",
                end="",
            )
    assert by_both["paraphrase"] >= by_words["paraphrase"] + 0.25
    assert by_both["paraphrase"] >= 0.85
    assert by_both["keyword"] >= by_words["keyword"]
    assert by_words["keyword"] == 1.0


@pytest.mark.load
async def test_ten_thousand_chunks_answer_soon(capsys: pytest.CaptureFixture[str]) -> None:
    """A search by words in 10,000 chunks takes less than 20 ms in the median."""
    index = TextIndex(Database(None))
    texts = list(DOCUMENTS.values())
    for document in range(CHUNKS // 100):
        chunks = [
            f"{texts[(document * 7 + place) % len(texts)]} {texts[(document + place * 3) % 62]} "
            f"Note {document}-{place}."
            for place in range(100)
        ]
        await index.add("large", f"d{document}", chunks)
    passing = {f"d{document}" for document in range(CHUNKS // 100)}
    taken: list[float] = []
    for each in WANTED:
        began = time.perf_counter()
        hits = await index.search("large", each.query, AT, documents=passing)
        taken.append(time.perf_counter() - began)
        assert len(hits) == AT or each.kind == "paraphrase"
    with capsys.disabled():
        print(f"\n{CHUNKS} chunks: {median(taken) * 1000:.1f} ms in the median", end="")
    assert median(taken) < MAX_SECONDS
