"""A folder of saved pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from toolcrib.embedded.database import Database
from toolcrib.embedded.search.index import TextIndex
from toolcrib.embedded.search.reader import DocumentReader
from toolcrib.embedded.web.folder import WebFolder
from toolcrib.embedded.web.source import Domains
from toolcrib.errors import UsageError, WebUnavailable

BASE = "https://docs.example.com/guide"
ANY = Domains()


class Counting:
    """An embedder that counts what it was given."""

    name, size = "counting", 2

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy as np

        self.texts += texts
        return [np.array([1, 0]).astype("<f4").tobytes() for _ in texts]


def opened(folder: Path, database: Database, embedder: Counting | None = None) -> WebFolder:
    pages = WebFolder(folder, BASE)
    pages.use(database, embedder, DocumentReader())
    return pages


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "a b").mkdir(parents=True)
    (folder / "index.html").write_text("<title>Home</title><body>Welcome to kettles")
    (folder / "a b" / "pots.html").write_text("<title>Pots</title><body>Pots hold plants")
    (folder / "plain.md").write_text("# Plain\n\nplain words on kettles")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    return folder


async def test_pages_are_found_at_their_addresses(site: Path) -> None:
    """A page's address is its place below the base; an index is its folder."""
    pages = opened(site, Database(None))
    found = {page.url: page.title for page in await pages.search("kettles", 5, ANY)}
    [pots] = await pages.search("plants", 5, ANY)
    assert found == {f"{BASE}/": "Home", f"{BASE}/plain.md": "Plain"}
    assert pots.url == f"{BASE}/a%20b/pots.html"
    assert pots.text == "Pots hold plants"


async def test_a_page_is_opened_by_its_address_only(site: Path) -> None:
    """With or without a place in it; nothing outside of the folder is one."""
    pages = opened(site, Database(None))
    page = await pages.open(f"{BASE}/plain.md#part")
    assert page is not None
    assert page.text == "# Plain\n\nplain words on kettles"
    assert await pages.open(f"{BASE}/../../../etc/passwd") is None
    assert await pages.open("https://elsewhere.example/plain.md") is None


async def test_links_out_of_the_folder_are_not_pages(site: Path, tmp_path: Path) -> None:
    """Neither files nor folders are reached through links."""
    (tmp_path / "secret.md").write_text("kettles are secret")
    (site / "link.md").symlink_to(tmp_path / "secret.md")
    (site / "up").symlink_to(tmp_path)
    pages = opened(site, Database(None))
    found = [page.text for page in await pages.search("secret kettles", 9, ANY)]
    assert found
    assert not any("secret" in text for text in found)


async def test_only_pages_that_changed_are_indexed_again(site: Path, tmp_path: Path) -> None:
    """A restart reads no page twice; what is new is found, what is gone is not."""
    database, first, second, third = (
        Database(tmp_path / "d.sqlite3"),
        Counting(),
        Counting(),
        Counting(),
    )
    await opened(site, database, first).search("kettles", 5, ANY)
    assert len(first.texts) == 4
    await opened(site, database, second).search("kettles", 5, ANY)
    assert second.texts == ["kettles"]
    (site / "plain.md").write_text("now about teapots")
    (site / "a b" / "pots.html").unlink()
    (site / "new.md").write_text("newly written")
    pages = opened(site, database, third)
    found = await pages.search("teapots newly plants", 9, ANY)
    assert sorted(third.texts) == ["newly written", "now about teapots", "teapots newly plants"]
    assert {page.url for page in found} == {f"{BASE}/", f"{BASE}/plain.md", f"{BASE}/new.md"}
    assert await pages.open(f"{BASE}/a%20b/pots.html") is None
    assert await TextIndex(database).search(f"web {site}", "plants", 5) == []


async def test_another_model_means_other_vectors(site: Path) -> None:
    """Pages are indexed again for a model that they were not indexed for."""
    database, model = Database(None), Counting()
    await opened(site, database).search("kettles", 5, ANY)
    await opened(site, database, model).search("kettles", 5, ANY)
    assert len(model.texts) == 4


async def test_a_folder_without_pages_says_so(tmp_path: Path) -> None:
    """It does not pretend to have looked."""
    (tmp_path / "x.png").write_bytes(b"\x89PNG")
    with pytest.raises(WebUnavailable, match="no readable pages"):
        await opened(tmp_path, Database(None)).search("x", 5, ANY)


def test_a_folder_that_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    """When it is made, not when it is first asked."""
    with pytest.raises(UsageError, match="there is no folder"):
        WebFolder(tmp_path / "none", BASE)
    with pytest.raises(UsageError, match="must begin with http"):
        WebFolder(tmp_path, "docs.example.com")


@pytest.mark.parametrize(
    ("domains", "url", "is_admitted"),
    [
        (Domains(), "https://a.com/x", True),
        (Domains(("a.com",)), "https://a.com/x", True),
        (Domains(("a.com",)), "https://deep.A.com./x", True),
        (Domains(("a.com",)), "https://nota.com/x", False),
        (Domains(("a.com",)), "https://a.com.evil.com/x", False),
        (Domains(("a.com",)), "https://a.com@evil.com/x", False),
        (Domains(("a.com",), ("b.a.com",)), "https://b.a.com/x", False),
        (Domains((), ("a.com",)), "https://x.a.com/x", False),
        (Domains((), ("a.com",)), "https://b.com/x", True),
        (Domains(), "javascript:alert(1)", False),
        (Domains(), "ftp://a.com/x", False),
        (Domains(), "file:///etc/passwd", False),
        (Domains(), "http://[bad", False),
        (Domains(), "", False),
    ],
)
def test_domains(domains: Domains, url: str, is_admitted: bool) -> None:
    """A domain stands for those below it, a block counts more, and only the web is the web."""
    assert domains.admit(url) is is_admitted
