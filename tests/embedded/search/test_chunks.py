"""Cutting texts into chunks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.embedded.search.documents import CHARACTERS_PER_TOKEN, Chunking, chunks_of

TEXTS = st.text(alphabet="ab. \n!é漢", max_size=3000)
SIZES = st.tuples(st.integers(5, 60), st.integers(0, 30)).map(
    lambda sizes: Chunking(sizes[0], min(sizes[1], sizes[0] // 2))
)


@given(TEXTS, SIZES)
def test_nothing_is_lost(text: str, chunking: Chunking) -> None:
    """Every chunk is a part of the text, they are in order, and between them only blanks are left
    out.
    """
    reached = 0
    begin = 0
    for chunk in chunks_of(text, chunking):
        at = text.index(chunk, begin)
        assert text[reached:at].strip() == ""
        begin, reached = at, max(reached, at + len(chunk))
    assert text[reached:].strip() == ""


@given(TEXTS, SIZES)
def test_chunks_are_within_bounds(text: str, chunking: Chunking) -> None:
    """None is empty, none is too long, and there is an end."""
    chunks = list(chunks_of(text, chunking))
    most = chunking.most_tokens * CHARACTERS_PER_TOKEN
    assert all(0 < len(chunk) <= most for chunk in chunks)
    assert len(chunks) <= len(text)


def test_neighbours_overlap_by_about_what_was_asked() -> None:
    """So that a thought on the border is whole in one of them."""
    text = " ".join(f"Sentence number {n} says something." for n in range(400))
    chunks = list(chunks_of(text, Chunking(100, 50)))
    for before, after in pairwise(chunks):
        shared = next(
            size for size in range(len(after), -1, -1) if before.endswith(after[:size].rstrip())
        )
        assert 100 <= shared <= 50 * CHARACTERS_PER_TOKEN


def test_a_chunk_ends_where_the_text_pauses() -> None:
    """At a paragraph before a line, at a line before a sentence, at a sentence before a word."""
    words = "word " * 30
    text = f"{words}end.\n\n{words}. {words}"
    [first, *_] = chunks_of(text, Chunking(50, 0))
    assert first.endswith("end.")


def test_the_whole_of_a_short_text_is_one_chunk() -> None:
    """And a blank one has none."""
    assert list(chunks_of("short")) == ["short"]
    assert list(chunks_of(" \n ")) == []


def test_a_text_without_any_pause_is_cut_all_the_same() -> None:
    """By length alone."""
    chunks = list(chunks_of("x" * 1000, Chunking(50, 0)))
    assert [len(chunk) for chunk in chunks] == [200] * 5
