"""The text of a document: plain text, Markdown, HTML, PDF, CSV and JSON.

The text of an HTML page. It takes time in proportion to the page, whatever the page holds.
"""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

_RAW: Final = frozenset({"script", "style", "textarea", "title"})
"""Elements that hold no others: they go on to their own end."""

_SILENT: Final = frozenset({"head", "noscript", "svg", "template"})
_BLOCKS: Final = frozenset(
    {"p", "div", "section", "article", "li", "tr", "br", "table", "ul", "ol", "pre", "blockquote"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "main", "header", "footer", "nav", "aside", "dt", "dd"}
    | {"hr", "td", "th", "figcaption", "option", "body"}
)
_NAME: Final = re.compile(r"</?([A-Za-z][A-Za-z0-9-]{0,40})")
# A quote that nobody closes must not make every tag a search to the end of the page.
_REST: Final = re.compile(r"(?>[^>\"']{1,9999}|\"[^\"]{0,9999}\"|'[^']{0,9999}'){0,999}+>")
_ENDS: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _RAW}


@dataclass(slots=True)
class HtmlPage:
    """The title and the text of a page, in pieces."""

    title: str = ""
    pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """Its lines, without the blanks that a browser would not show."""
        lines = (" ".join(line.split()) for line in "".join(self.pieces).splitlines())
        return "\n".join(line for line in lines if line)


def read_page(source: str) -> HtmlPage:
    """What a reader of the page would see."""
    reader = _HtmlReader(source)
    while reader.at < len(source):
        reader.step()
    return reader.page


class _HtmlReader:
    def __init__(self, source: str) -> None:
        self.page = HtmlPage()
        self.at = 0
        self._source = source
        self._silent = dict.fromkeys(_SILENT, 0)

    def step(self) -> None:
        """Take the text up to the next tag, and the tag."""
        begin = self._source.find("<", self.at)
        if begin < 0:
            begin = len(self._source)
        self._say(self._source[self.at : begin])
        self.at = begin
        if begin < len(self._source):
            self._markup()

    def _markup(self) -> None:
        if self._source.startswith("<!--", self.at):
            self._skip_to("-->")
        elif self._source.startswith(("<!", "<?"), self.at):
            self._skip_to(">")
        elif (named := _NAME.match(self._source, self.at)) is not None:
            self._tag(named[1].lower(), is_end=self._source.startswith("</", self.at))
        else:
            self._say("<")
            self.at += 1

    def _tag(self, name: str, *, is_end: bool) -> None:
        rest = _REST.match(self._source, self.at + 1)
        if rest is None:
            self._skip_to(">")
        else:
            self.at = rest.end()
        if name in _BLOCKS:
            self.page.pieces.append("\n")
        if name == "body":
            # The end of a head may be left out.
            self._silent["head"] = 0
        if name in _SILENT:
            self._hush(name, is_end=is_end)
        elif name in _RAW and not is_end:
            self._raw(name)

    def _hush(self, name: str, *, is_end: bool) -> None:
        if is_end:
            self._silent[name] = max(0, self._silent[name] - 1)
        elif not self._source.startswith("/", self.at - 2):
            self._silent[name] += 1

    def _raw(self, name: str) -> None:
        end = _ENDS[name].search(self._source, self.at)
        stop = len(self._source) if end is None else end.start()
        held = self._source[self.at : stop]
        self.at = stop
        if name == "title" and not self._silent["svg"]:
            self.page.title = self.page.title or " ".join(html.unescape(held).split())
        elif name == "textarea":
            self._say(held)

    def _say(self, text: str) -> None:
        if text and not any(self._silent.values()):
            self.page.pieces.append(html.unescape(text))

    def _skip_to(self, mark: str) -> None:
        found = self._source.find(mark, self.at)
        self.at = len(self._source) if found < 0 else found + len(mark)


MOST_CHARACTERS: Final = 20_000_000
MOST_TITLE: Final = 300
TEXT: Final = frozenset(
    {"", ".txt", ".text", ".log", ".md", ".markdown", ".rst", ".json", ".jsonl", ".yaml", ".yml"}
    | {".py", ".js", ".ts", ".java", ".c", ".cpp", ".h", ".go", ".rs", ".rb", ".sh", ".css", ".tex"}
)
HTML: Final = frozenset({".html", ".htm", ".xhtml"})
CSV: Final = frozenset({".csv", ".tsv"})
# What a damaged file makes its reader stumble over, besides what the reader calls an error.
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
SUPPORTED: Final = TEXT | HTML | CSV | {".pdf"}


class UnreadableDocument(Exception):
    """A document whose text cannot be had."""


@dataclass(frozen=True, slots=True)
class Document:
    """A title, if the document has one, and its text."""

    title: str | None
    text: str


def read_document(filename: str, data: bytes) -> Document:
    """The text of a file, by the ending of its name. Raises `UnreadableDocument`."""
    ending = PurePosixPath(filename).suffix.lower()
    if ending == ".pdf":
        document = _pdf(data)
    elif ending in HTML:
        document = _html(_decoded(data))
    elif ending in CSV:
        document = Document(None, _table(_decoded(data), "\t" if ending == ".tsv" else ","))
    elif ending in TEXT:
        text = _decoded(data)
        document = Document(_heading(text), text)
    else:
        raise UnreadableDocument(f"files that end in {ending!r} cannot be read")
    if not document.text.strip():
        raise UnreadableDocument("there is no text in it")
    return Document(one_line(document.title or "") or None, document.text[:MOST_CHARACTERS])


def one_line(title: str) -> str:
    """A title as it can be shown anywhere: a line, not too long, without control characters."""
    shown = "".join(each if each.isprintable() else " " for each in title[: 4 * MOST_TITLE])
    return " ".join(shown.split())[:MOST_TITLE]


def _decoded(data: bytes) -> str:
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data[:4096] and not is_wide:
        raise UnreadableDocument("it is not text")
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError:
        pass
    return data.decode("cp1252", "replace")


def _heading(text: str) -> str | None:
    for line in text.splitlines()[:20]:
        if line.startswith("# "):
            return line[2:].strip() or None
    return None


def _table(text: str, delimiter: str) -> str:
    """Every row as a line that names its columns, so that a row can be found on its own."""
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        header = next(rows, list[str]())
        lines = [
            "; ".join(f"{name}: {value}" for name, value in zip(header, row, strict=False))
            for row in rows
        ]
    except csv.Error as error:
        raise UnreadableDocument(f"it is not a table: {error}") from None
    return "\n".join(lines) or "; ".join(header)


def _pdf(data: bytes) -> Document:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise UnreadableDocument("PDF needs pypdf; run: pip install 'toolcrib[search]'") from None
    try:
        reader = PdfReader(io.BytesIO(data))
        title = reader.metadata.title if reader.metadata else None
        return Document(title, "\n\n".join(page.extract_text() for page in reader.pages))
    except (PyPdfError, *_PDF_FAULTS) as error:
        raise UnreadableDocument(
            f"it is not a PDF that can be read: {type(error).__name__}"
        ) from None


def _html(text: str) -> Document:
    page = read_page(text)
    return Document(page.title or None, page.text)
