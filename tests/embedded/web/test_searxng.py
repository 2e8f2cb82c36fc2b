"""A SearXNG server, played by a real one on this machine."""

from __future__ import annotations

import pytest

from tests.embedded.web.searxng_server import Engine, search_engine
from toolcrib.embedded.search.documents import MAX_TITLE
from toolcrib.embedded.web import searxng
from toolcrib.embedded.web.searxng import Searxng
from toolcrib.embedded.web.source import Domains
from toolcrib.errors import UsageError, WebUnavailable

GOOD = {"url": "https://a.com/1", "title": " A \n page \x1b", "content": "text"}


async def test_results_are_pages() -> None:
    """With tidy titles, in the order of the engine."""
    async with search_engine() as engine:
        engine.answers(GOOD, {"url": "https://b.com/2", "title": None, "content": None})
        first, second = await Searxng(engine.url).search("kettle", 5, Domains())
    assert engine.queries == ["kettle"]
    assert (first.url, first.title, first.text) == ("https://a.com/1", "A page", "text")
    assert (second.title, second.text) == ("https://b.com/2", "")


async def test_domains_are_asked_for_and_kept_to() -> None:
    """An engine that passes over them does not get its results through."""
    async with search_engine() as engine:
        engine.answers(GOOD, {**GOOD, "url": "https://evil.com/"}, {**GOOD, "url": "https://x.org"})
        found = await Searxng(engine.url).search("k", 5, Domains(("a.com",), ("evil.com",)))
    assert [page.url for page in found] == ["https://a.com/1"]
    assert engine.queries == ["k -site:evil.com site:a.com"]


async def test_results_that_are_none_are_left_out() -> None:
    """A hostile engine cannot have anything else than web addresses cited."""
    bad = [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://[",
        "http://a.com/\n\x1b[2J",
        5,
        None,
    ]
    async with search_engine() as engine:
        engine.answers(*({**GOOD, "url": url} for url in bad), "text", None, [], GOOD)
        found = await Searxng(engine.url).search("k", 5, Domains())
    assert [page.url for page in found] == ["https://a.com/1"]


async def test_long_texts_are_cut() -> None:
    """Titles and texts alike."""
    async with search_engine() as engine:
        engine.answers({"url": "https://a.com", "title": "t" * 9999, "content": "c" * 9999})
        [page] = await Searxng(engine.url).search("k", 5, Domains())
    assert (len(page.title), len(page.text)) == (MAX_TITLE, searxng.MAX_TEXT)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (403, b"{}"),
        (302, b"{}"),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"[" * 100_000),
        (200, b"\xff\xfe"),
    ],
)
async def test_a_failure_is_told_as_one(status: int, body: bytes) -> None:
    """Never as an empty result, and without what the engine said."""
    async with search_engine() as engine:
        engine.status, engine.body = status, body
        with pytest.raises(WebUnavailable, match="the search engine"):
            await Searxng(engine.url).search("k", 5, Domains())


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is cut off on the way."""
    monkeypatch.setattr(searxng, "MAX_BYTES", 1000)
    async with search_engine() as engine:
        engine.body = b" " * 2000
        with pytest.raises(WebUnavailable, match="too much"):
            await Searxng(engine.url).search("k", 5, Domains())


async def test_an_engine_that_is_not_there_is_told_of() -> None:
    """Without its address, which may hold a name and a password."""
    searching = Searxng("http://user:password@127.0.0.1:9")
    with pytest.raises(WebUnavailable) as caught:
        await searching.search("k", 5, Domains())
    assert "password" not in str(caught.value)
    assert await searching.open("https://a.com") is None


def test_an_endpoint_has_to_be_of_the_web() -> None:
    """Any other address is a mistake."""
    with pytest.raises(UsageError, match="must be http or https"):
        Searxng("ftp://a.com")
    assert Engine().queries == []
