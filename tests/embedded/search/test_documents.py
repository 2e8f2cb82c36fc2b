"""Reading documents."""

from __future__ import annotations

import io
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.embedded.search.documents import MAX_DEPTH, read_document, read_page
from toolcrib.errors import UnreadableDocument


def pdf(*pages: str, title: str | None = None) -> bytes:
    """A real PDF with text on its pages."""
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure

    data = io.BytesIO()
    with PdfPages(data, metadata={"Title": title}) as opened:
        book: Any = opened
        for text in pages:
            figure: Any = Figure()
            figure.text(0.1, 0.5, text)
            book.savefig(figure)
    return data.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "title", "text"),
    [
        ("a.txt", b"plain", None, "plain"),
        ("README", b"no ending", None, "no ending"),
        ("a.md", b"intro\n# Title \n\nbody", "Title", "intro\n# Title \n\nbody"),
        ("a.txt", "\ufeffcaf\u00e9".encode(), None, "caf\u00e9"),
        ("a.txt", "caf\u00e9 \u20ac5".encode("cp1252"), None, "caf\u00e9 \u20ac5"),
        ("a.txt", "wide".encode("utf-16"), None, "wide"),
        (
            "a.csv",
            b"name,age\nada,36\ngrace,45\n",
            None,
            "name: ada; age: 36\nname: grace; age: 45",
        ),
        ("a.tsv", b"name\tage\nada\t36\n", None, "name: ada; age: 36"),
        ("a.csv", b"only,header\n", None, "only; header"),
        ("a.csv", b'name,note\nada,"two\nlines"\n', None, "name: ada; note: two\nlines"),
        ("a.json", b'{"a": 1}', None, '{"a": 1}'),
    ],
)
def test_the_text_of_a_document(name: str, data: bytes, title: str | None, text: str) -> None:
    """By the ending of its name, in the encodings that people really use."""
    document = read_document(name, data)
    assert (document.title, document.text) == (title, text)


def test_the_text_of_a_pdf() -> None:
    """Every page, and the title if it has one."""
    document = read_document("a.PDF", pdf("The first page", "The second page", title="A book"))
    assert document.title == "A book"
    assert "The first page" in document.text
    assert "The second page" in document.text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", b"not a pdf"),
        ("a.pdf", b""),
        ("a.txt", b"\x00\x01\x02binary"),
        ("a.txt", b" \n "),
        ("a.png", b"\x89PNG"),
        ("a.html", b"<script>only()</script>"),
        ("a.csv", b"a,b\n" + b"x" * 200_000 + b",1\n"),
    ],
)
def test_what_has_no_text_is_said_to_be_unreadable(name: str, data: bytes) -> None:
    """With a reason, and no other exception."""
    with pytest.raises(UnreadableDocument, match=r"\w"):
        read_document(name, data)


def test_a_damaged_pdf_is_unreadable_or_short_but_never_an_error() -> None:
    """Bytes are changed all over a real file."""
    whole = pdf("The first page")
    unreadable = 0
    for at in range(0, len(whole), len(whole) // 40):
        broken = whole[:at] + b"\xff<<" + whole[at + 3 :]
        try:
            assert read_document("a.pdf", broken).text.strip()
        except UnreadableDocument:
            unreadable += 1
    assert unreadable > 0


def test_the_text_of_a_page_is_what_a_reader_sees() -> None:
    """No scripts, styles, comments or heads; blocks are lines; references are characters."""
    page = read_page(
        "<!doctype html><head><title>A &amp;\n B</title><style>p{}</style></head><body>"
        "<h1>One</h1><p>x &lt; y <b>bold</b><!-- <p>no --><script>if (a<b) {}</script>"
        "<ul><li>first<li>second</ul><svg><title>no</title><text>no</text></svg>"
        "<a title='a > b' href=x>link</a><noscript>no</noscript> 3 < 4</body>"
    )
    assert page.title == "A & B"
    assert page.text == "One\nx < y bold\nfirst\nsecond\nlink 3 < 4"


def test_a_head_that_is_not_closed_hides_nothing() -> None:
    """Its end tag may be left out."""
    assert read_page("<html><head><title>T</title><body>seen").text == "seen"


@pytest.mark.parametrize(
    "piece",
    [
        *("<!--", "<![CDATA[", "</", "<a ", "<a x='", '<a ">', "<script>", "<svg></head>", "&#"),
        *("<?", "<div>", "<b><p>", "<a><div>", "<table>x", "<select><option>", "<template>"),
        *("<p><font size=1></p>", "<li>", "<nav><p>", "<p class='cookie-"),
    ],
)
def test_a_hostile_page_takes_no_longer_than_its_length(piece: str) -> None:
    """Ten times the page takes about ten times as long, not a hundred times; a page that is nested
    too deeply is refused within that time.
    """

    def seconds(count: int) -> float:
        began = time.process_time()
        with suppress(UnreadableDocument):
            read_page("text " + piece * count)
        return time.process_time() - began

    seconds(1000)
    assert seconds(100_000) < 5.0


@pytest.mark.parametrize(
    "attributes",
    [
        " ".join(f"x{number}=1" for number in range(100_000)),
        " ".join(f"x{number}='{number}'" for number in range(100_000)),
        f'x="{"y" * 5_000_000}"',
        f'class="{"cookie-" * 500_000}"',
    ],
    ids=["many", "quoted", "huge", "class"],
)
def test_attributes_of_any_size_are_passed_over(attributes: str) -> None:
    """Neither their number nor their length hides the text or takes long."""
    began = time.process_time()
    assert read_page(f"<p {attributes}>seen").text == "seen"
    assert time.process_time() - began < 5.0


def test_formatting_that_is_left_open_is_not_copied() -> None:
    """A page of some kilobytes does not become millions of elements, as it would in a browser."""
    fonts = "".join(f"<font size={number}>" for number in range(900))
    assert read_page(f"<p>{fonts}</p>" + "<p>x" * 20_000).text == "\n".join("x" * 20_000)


@pytest.mark.parametrize("count", [MAX_DEPTH - 10, MAX_DEPTH + 10])
def test_a_page_nested_too_deeply_is_unreadable(count: int) -> None:
    """Up to the limit it is read; beyond it the reason names the limit."""
    page = "<div>" * count + "deep"
    if count < MAX_DEPTH:
        assert read_page(page).text == "deep"
    else:
        with pytest.raises(UnreadableDocument, match=f"more than {MAX_DEPTH} deep"):
            read_page(page)


PAGE = """<!doctype html><title>Opening hours</title><body>
<header><h1>The shop</h1></header>
<nav><a href=/>Home</a> <a href=/jobs>Jobs</a></nav>
<div role="Navigation">Breadcrumbs</div>
<div id="site-cookie-banner"><p>We use cookies.</p></div>
<div class="x CookieConsent">Accept all</div>
<main><h2>When we are open</h2><p>Until nine.</p><p hidden>secret</p></main>
<aside>Related shops</aside>
<div role=contentinfo>Imprint</div>
<footer>Copyright</footer>"""


def test_a_page_is_read_without_its_boilerplate() -> None:
    """Headings and text stay; what the page marks as navigation, notice or footer does not."""
    page = read_page(PAGE)
    assert page.title == "Opening hours"
    assert page.text == "The shop\nWhen we are open\nUntil nine."


@pytest.mark.parametrize(
    "page",
    ["<nav>seen</nav>", "<body><aside><p>seen</p></aside>", "<div class=cookie-notice>seen</div>"],
)
def test_a_page_of_boilerplate_alone_is_read_whole(page: str) -> None:
    """A page never loses all of its text to a mark."""
    assert read_page(page).text == "seen"


def test_a_word_in_a_class_is_no_cookie_bar() -> None:
    """A page about cookies keeps its text."""
    assert read_page("<div class='cookie-recipe'>Bake them.</div>").text == "Bake them."


@given(st.text(alphabet="<>/!-'\"=ab &;scriptdyhe#", max_size=300))
def test_any_text_can_be_a_page(source: str) -> None:
    """Nothing makes the reader fail, and what is not markup is kept."""
    read_page(source)
    plain = source.replace("<", "").replace("&", "")
    assert read_page(plain).text.split() == plain.split()
