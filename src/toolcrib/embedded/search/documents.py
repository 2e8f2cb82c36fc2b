"""The text of documents (plain text, Markdown, HTML, PDF, CSV, JSON), and their chunks.

Parsers run in the confined process of `reader.py`; nothing else calls them with bytes of others.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from toolcrib.errors import UnreadableDocument

MAX_CHARACTERS: Final = 20_000_000
"""The most that is read of a document; the rest is cut off."""
MAX_TITLE: Final = 300
MAX_DEPTH: Final = 1000
"""Nested elements of a page; browsers stop at about 500."""

TEXT: Final = frozenset(
    {"", ".txt", ".text", ".log", ".md", ".markdown", ".rst", ".json", ".jsonl", ".yaml", ".yml"}
    | {".py", ".js", ".ts", ".java", ".c", ".cpp", ".h", ".go", ".rs", ".rb", ".sh", ".css", ".tex"}
)
HTML: Final = frozenset({".html", ".htm", ".xhtml"})
CSV: Final = frozenset({".csv", ".tsv"})
SUPPORTED: Final = TEXT | HTML | CSV | {".pdf"}

_INVISIBLE: Final = frozenset({"head", "iframe", "noscript", "script", "style", "svg", "template"})
_BOILERPLATE: Final = frozenset({"aside", "dialog", "footer", "nav"})
_BOILERPLATE_ROLES: Final = frozenset(
    {"alertdialog", "complementary", "contentinfo", "dialog", "menu", "menubar", "navigation"}
)
_COOKIE_BAR: Final = re.compile(
    r"(?:cookie|consent|gdpr)s?[-_]?(?:banner|bar|consent|dialog|notice|popup)\b", re.IGNORECASE
)
_BLOCKS: Final = frozenset(
    {"p", "div", "section", "article", "li", "tr", "br", "table", "ul", "ol", "pre", "blockquote"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "main", "header", "footer", "nav", "aside", "dt", "dd"}
    | {"hr", "td", "th", "figcaption", "option", "body"}
)
_FEED_BYTES: Final = 65_536
_HEADING_CHARACTERS: Final = 20_000
# Exceptions that pypdf raises for damaged files, besides its own.
_PDF_FAULTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Document:
    """The title of a document, if it has one, and its text."""

    title: str | None
    text: str


def bytes_to_read(filename: str, size: int) -> int:
    """How many bytes of a file its parser needs: a PDF whole, of a text what is not cut off."""
    is_pdf = PurePosixPath(filename).suffix.lower() == ".pdf"
    return size if is_pdf else min(size, 4 * MAX_CHARACTERS)


def read_document(filename: str, data: bytes, *, marks_pages: bool = False) -> Document:
    """Read a file in the format that its name ends in. With `marks_pages`, each page of a PDF
    begins with a line `[page N]`. Raises `UnreadableDocument`.
    """
    ending = PurePosixPath(filename).suffix.lower()
    if ending == ".pdf":
        document = _pdf(data, marks_pages=marks_pages)
    elif ending in HTML:
        document = read_page(_decoded(data))
    elif ending in CSV:
        document = Document(None, _table(_decoded(data), "\t" if ending == ".tsv" else ","))
    elif ending in TEXT:
        text = _decoded(data)
        document = Document(_heading(text), text)
    else:
        raise UnreadableDocument(f"files that end in {ending!r} are not supported")
    if not document.text.strip():
        raise UnreadableDocument("there is no text in it")
    return Document(one_line(document.title or "") or None, document.text[:MAX_CHARACTERS])


def read_page(source: str) -> Document:
    """Read an HTML page: its title, and the text that a reader came for.

    Navigation, footers, asides and cookie bars are left out where the page marks them as such,
    unless the page has no other text. The time is linear in the length of the page. Raises
    `UnreadableDocument` for a page nested deeper than `MAX_DEPTH`.
    """
    page = _parse(source, with_boilerplate=False)
    return page if page.text else _parse(source, with_boilerplate=True)


def _parse(source: str, *, with_boilerplate: bool) -> Document:
    try:
        etree: Any = importlib.import_module("lxml.etree")
    except ImportError:
        raise UnreadableDocument(
            "HTML needs lxml, which is not installed (extra: search)"
        ) from None
    target = _PageText(with_boilerplate=with_boilerplate)
    # lxml calls the target while it parses, so no tree is built. A tree would cost more than
    # linear time: HTML5 parsers copy formatting elements that a hostile page leaves open.
    parser: Any = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True)
    data = source.encode("utf-8", "replace")
    try:
        for at in range(0, len(data), _FEED_BYTES):
            parser.feed(data[at : at + _FEED_BYTES])
        return parser.close() if data else target.close()
    except etree.ParserError:
        # A page without any element, such as a comment alone.
        return target.close()


class _PageText:
    """A target of lxml's parser that collects the title and the visible text of a page."""

    def __init__(self, *, with_boilerplate: bool) -> None:
        self._with_boilerplate = with_boilerplate
        self._depth = 0
        self._skipped_from: int | None = None
        """The depth of the outermost element that is left out, while the parser is inside it."""
        self._open_svg = 0
        self._in_title = False
        self._title = _CappedText(4 * MAX_TITLE)
        self._text = _CappedText()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._depth += 1
        # The parser looks for the start of each end tag through all open elements.
        if self._depth > MAX_DEPTH:
            raise UnreadableDocument(f"its elements are nested more than {MAX_DEPTH} deep")
        self._open_svg += tag == "svg"
        self._in_title = tag == "title" and not self._open_svg and not self._title.text
        if tag in _BLOCKS:
            self._text.add("\n")
        if self._skipped_from is None and self._is_left_out(tag, attributes):
            self._skipped_from = self._depth

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._depth == self._skipped_from:
            self._skipped_from = None
        self._depth -= 1
        self._open_svg -= tag == "svg"
        self._in_title = False
        if tag in _BLOCKS:
            self._text.add("\n")

    def data(self, data: str) -> None:
        """Text, with its character references resolved."""
        if self._in_title:
            self._title.add(data)
        elif self._skipped_from is None:
            self._text.add(data)

    def close(self) -> Document:
        """The page ends."""
        text = _CappedText()
        for line in self._text.lines():
            if words := " ".join(line.split()):
                text.add(words if text.is_empty else f"\n{words}")
        return Document(" ".join(self._title.text.split()) or None, text.text)

    def _is_left_out(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag in _INVISIBLE or "hidden" in attributes:
            return True
        if self._with_boilerplate:
            return False
        names = f"{attributes.get('id', '')} {attributes.get('class', '')}"
        return (
            tag in _BOILERPLATE
            or attributes.get("role", "").lower() in _BOILERPLATE_ROLES
            or _COOKIE_BAR.search(names) is not None
        )


def one_line(title: str) -> str:
    """Make a title safe to show: one line of limited length without control characters."""
    shown = "".join(
        character if character.isprintable() else " " for character in title[: 4 * MAX_TITLE]
    )
    return " ".join(shown.split())[:MAX_TITLE]


def _decoded(data: bytes) -> str:
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data[:4096] and not is_wide:
        raise UnreadableDocument("it is not text")
    try:
        return _first_characters(data, "utf-16" if is_wide else "utf-8-sig", "strict")
    except UnicodeDecodeError:
        return _first_characters(data, "cp1252", "replace")


def _first_characters(data: bytes, encoding: str, errors: str) -> str:
    with io.TextIOWrapper(io.BytesIO(data), encoding, errors, newline="") as text:
        return text.read(MAX_CHARACTERS)


def _heading(text: str) -> str | None:
    for line in text[:_HEADING_CHARACTERS].splitlines()[:20]:
        if line.startswith("# "):
            return line[2:].strip() or None
    return None


def _table(text: str, delimiter: str) -> str:
    """Write every row as a line that names its columns, so that a search can find it alone."""
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    lines = _CappedText()
    try:
        header = next(rows, list[str]())
        for row in rows:
            separator = "" if lines.is_empty else "\n"
            for name, value in zip(header, row, strict=False):
                # Written at once: a row repeats the names, and may be as long as the whole file.
                for piece in (separator, name, ": ", value):
                    lines.add(piece)
                separator = "; "
            if lines.is_full:
                break
    except csv.Error as error:
        raise UnreadableDocument(f"it is not a table: {error}") from None
    return lines.text or "; ".join(header)


class _CappedText:
    """Text that is collected piece by piece up to a limit; the rest is dropped."""

    def __init__(self, most: int = MAX_CHARACTERS) -> None:
        self._pieces = io.StringIO(newline="")
        self._left = most

    @property
    def is_full(self) -> bool:
        return self._left == 0

    @property
    def is_empty(self) -> bool:
        return self._pieces.tell() == 0

    @property
    def text(self) -> str:
        return self._pieces.getvalue()

    def add(self, piece: str) -> None:
        kept = piece[: self._left]
        self._left -= len(kept)
        self._pieces.write(kept)

    def lines(self) -> Iterator[str]:
        self._pieces.seek(0)
        return iter(self._pieces)


def _pdf(data: bytes, *, marks_pages: bool) -> Document:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise UnreadableDocument(
            "PDF needs pypdf, which is not installed (extra: search)"
        ) from None
    try:
        reader = PdfReader(io.BytesIO(data))
        title = reader.metadata.title if reader.metadata else None
        text, has_words = _CappedText(), False
        for number, page in enumerate(reader.pages, 1):
            if not text.is_empty:
                text.add("\n\n")
            if marks_pages:
                text.add(f"[page {number}]\n")
            words = page.extract_text()
            has_words = has_words or (not words.isspace() and bool(words))
            text.add(words)
            if text.is_full:
                break
        return Document(title, text.text if has_words else "")
    except (PyPdfError, *_PDF_FAULTS) as error:
        raise UnreadableDocument(
            f"it is not a PDF that can be read: {type(error).__name__}"
        ) from None


CHARACTERS_PER_TOKEN: Final = 4
_PAUSES: Final = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?])\s+"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Chunking:
    """The maximum length of a chunk and its overlap with the next one, in tokens."""

    most_tokens: int = 800
    overlap_tokens: int = 400


DEFAULT: Final = Chunking()


def chunks_of(text: str, chunking: Chunking = DEFAULT) -> Iterator[str]:
    """Split a text into chunks, in order. No chunk is empty."""
    most = chunking.most_tokens * CHARACTERS_PER_TOKEN
    overlap = chunking.overlap_tokens * CHARACTERS_PER_TOKEN
    start = 0
    while start < len(text):
        end = _end(text, start, most)
        piece = text[start:end].strip()
        if piece:
            yield piece
        if end >= len(text):
            return
        start = max(_beginning(text, end - overlap, end), start + 1)


def _end(text: str, start: int, most: int) -> int:
    """The last paragraph, sentence or word boundary in the second half of a chunk."""
    if start + most >= len(text):
        return len(text)
    for pause in _PAUSES:
        stops = [match.end() for match in pause.finditer(text, start + most // 2, start + most)]
        if stops:
            return stops[-1]
    return start + most


def _beginning(text: str, wanted: int, end: int) -> int:
    """The start of the next sentence, or else of the next word."""
    for pause in _PAUSES[2:]:
        match = pause.search(text, max(wanted, 0), end)
        if match is not None and match.end() < end:
            return match.end()
    return end
