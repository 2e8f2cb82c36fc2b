"""The index: by words and by meaning."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.embedded.database import Database
from toolcrib.embedded.search.index import RankWeights, TextIndex, fused, words_query


class Axes:
    """An embedder for which each known word is a direction of its own."""

    name, size = "axes", 3

    def __init__(self, *words: str) -> None:
        self._words = words

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy as np

        rows = [[float(word in text) for word in self._words] for text in texts]
        return [
            (np.array(row) / (np.linalg.norm(row) or 1)).astype("<f4").tobytes() for row in rows
        ]


async def test_words_are_found_in_other_forms() -> None:
    """Whatever their ending or their case, and the best comes first."""
    index = TextIndex(Database(None))
    await index.add("c", "a", ["Kettles boil water."])
    await index.add("c", "b", ["The kettle was boiling; boiling takes a while."])
    await index.add("other", "x", ["kettle boiled"])
    hits = await index.search("c", "BOILED", 10)
    assert {hit.document for hit in hits} == {"a", "b"}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 1 for hit in hits)


async def test_a_document_replaces_the_one_of_its_name() -> None:
    """Nothing of the old one is found, and a removed one is gone."""
    index = TextIndex(Database(None))
    await index.add("c", "a", ["old words", "older words"])
    await index.add("c", "a", ["new text"])
    assert await index.search("c", "old", 10) == []
    assert [hit.text for hit in await index.search("c", "new", 10)] == ["new text"]
    await index.remove("c", "a")
    assert await index.search("c", "new", 10) == []


async def test_only_the_documents_that_are_let_through_count() -> None:
    """Also by meaning, and before the number of results is cut."""
    for embedder in (None, Axes("kettle", "x", "y")):
        index = TextIndex(Database(None), embedder)
        for n in range(200):
            await index.add("c", f"d{n}", ["kettle kettle kettle"])
        await index.add("c", "last", ["a kettle among many other words in a longer sentence"])
        hits = await index.search("c", "kettle", 5, documents={"last"})
        assert [hit.document for hit in hits] == ["last"]


async def test_weights_decide_between_words_and_meaning() -> None:
    """With all weight on one of them, the other does not count."""
    index = TextIndex(Database(None), Axes("boil", "kettle", "z"))
    await index.add("c", "word", ["heat"])
    await index.add("c", "meaning", ["boil"])

    async def best(query: str, weights: RankWeights) -> str:
        return (await index.search("c", query, 1, weights=weights))[0].document

    assert await best("heat boiler", RankWeights(1.0, 0.0)) == "word"
    assert await best("heat boiler", RankWeights(0.0, 1.0)) == "meaning"


async def test_what_was_indexed_without_the_model_is_found_by_words() -> None:
    """A provider that gains a model later does not lose what it had."""
    database = Database(None)
    await TextIndex(database).add("c", "a", ["kettle"])
    index = TextIndex(database, Axes("kettle", "x", "y"))
    assert [hit.document for hit in await index.search("c", "kettle", 5)] == ["a"]
    assert await index.search("c", "nothing", 5) == []


async def test_vectors_of_only_so_many_collections_are_held() -> None:
    """Those that were not used for longest are read again when they are."""
    index = TextIndex(Database(None), Axes("kettle", "x", "y"))
    for n in range(40):
        await index.add(f"c{n}", "a", ["kettle"])
        await index.search(f"c{n}", "kettle", 1)
    assert len(index._known) <= 16  # pyright: ignore[reportPrivateUsage]
    assert len(await index.search("c0", "kettle", 1)) == 1


@given(st.text(max_size=200))
async def test_any_query_can_be_asked(query: str) -> None:
    """Nothing in it is taken for the language of the index."""
    index = TextIndex(Database(None))
    await index.add("c", "a", ["some text with words"])
    hits = await index.search("c", query, 5)
    assert [hit.document for hit in hits] in ([], ["a"])


def test_common_words_do_not_count_unless_there_are_no_others() -> None:
    """They fit every text."""
    assert words_query("how do I boil the water") == '"boil" OR "water"'
    assert words_query("what is it") == '"what" OR "is" OR "it"'
    assert words_query("?!") is None


def test_two_rankings_become_one() -> None:
    """What both rank high comes first; a score is never above one."""
    scores = fused((([1, 2, 3], 0.5), ([2, 4], 0.5)))
    assert max(scores, key=lambda chunk: scores[chunk]) == 2
    assert fused((([1], 0.5), ([1], 0.5))) == {1: pytest.approx(1.0)}
    assert set(scores) == {1, 2, 3, 4}
