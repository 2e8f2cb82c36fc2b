"""From marks in a backend's text to annotations with the right spans."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.embedded.responses.citations import CitationSources, CitationWriter
from toolcrib.embedded.tools.tool import CitationSource, ContainerFileSource, FileSource, PageSource

PAGE = PageSource("https://a.example/x", "A [page]")
FILE = FileSource("file_1", "notes.md")
CHART = ContainerFileSource("cntr_1", "cfile_1", "chart.png", "/mnt/data/chart.png")
SOURCES: dict[str, CitationSource] = {"S1": PAGE, "S2": FILE, "S3": CHART}


def cited(citer: CitationWriter, *pieces: str) -> tuple[str, list[dict[str, Any]]]:
    shown = [citer.feed(piece) for piece in pieces] + [citer.end()]
    return "".join(each.text for each in shown), [a for each in shown for a in each.annotations]


def test_a_page_becomes_a_link_and_the_span_covers_it() -> None:
    """Slicing the text with the span gives the link, also behind characters beyond ASCII."""
    text, [note] = cited(CitationWriter(SOURCES), "Kaffee ☕ 😀 costs 5 [S1].")
    assert text == "Kaffee ☕ 😀 costs 5 [A page](https://a.example/x)."
    assert text[note["start_index"] : note["end_index"]] == "[A page](https://a.example/x)"
    assert (note["type"], note["title"]) == ("url_citation", "A [page]")


def test_a_file_is_noted_at_its_place() -> None:
    """The mark is gone, and the note points to where it stood."""
    text, [note] = cited(CitationWriter(SOURCES), "As agreed[S2].")
    assert text == "As agreed."
    assert note == {
        "type": "file_citation",
        "index": 9,
        "file_id": "file_1",
        "filename": "notes.md",
    }


def test_a_linked_file_of_a_container_has_its_span_and_another_none() -> None:
    """A link is covered by its span; a new file that nobody links to is noted at the beginning."""
    text, [note] = cited(CitationWriter(SOURCES), "See [it](sandbox:/mnt/data/chart.png).")
    assert text[note["start_index"] : note["end_index"]] == "sandbox:/mnt/data/chart.png"
    _, unnamed = cited(CitationWriter(SOURCES, unnamed=[CHART]), "See above.")
    assert [(each["start_index"], each["end_index"]) for each in unnamed] == [(0, 0)]
    assert cited(CitationWriter(SOURCES), "See above.")[1] == []


def test_marks_of_no_source_stay() -> None:
    """Text that looks like a mark is only text."""
    assert cited(CitationWriter(SOURCES), "[S9] and [S] and [1]") == ("[S9] and [S] and [1]", [])


def test_a_link_within_json_keeps_the_json_whole() -> None:
    """A quotation mark in an address does not end the text that it stands in."""
    import json

    source = PageSource('https://a.example/"q"', "Q")
    text, _ = cited(CitationWriter({"S1": source}, in_json=True), '{"a": "x [S1]"}')
    assert json.loads(text) == {"a": 'x [Q](https://a.example/"q")'}


@given(st.text(alphabet="ab[S1]2 (", max_size=40), st.data())
def test_however_the_text_is_cut_the_result_is_the_same(text: str, data: st.DataObject) -> None:
    """Pieces may end in the middle of a mark."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert cited(CitationWriter(SOURCES), *pieces) == cited(CitationWriter(SOURCES), text)


def test_a_source_keeps_its_mark() -> None:
    """The same source has one mark, and marks of earlier responses are not given again."""
    sources = CitationSources()
    sources.restore("S7", PAGE)
    assert sources.add([FILE, PAGE, FILE]) == ["S8", "S7", "S8"]
