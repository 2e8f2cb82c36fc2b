"""The text of a document: plain text, Markdown, HTML, PDF, CSV and JSON."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from toolcrib.local.search.markup import read_page

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


class Unreadable(Exception):
    """A document whose text cannot be had."""


@dataclass(frozen=True, slots=True)
class Document:
    """A title, if the document has one, and its text."""

    title: str | None
    text: str


def read_document(filename: str, data: bytes) -> Document:
    """The text of a file, by the ending of its name. Raises `Unreadable`."""
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
        raise Unreadable(f"files that end in {ending!r} cannot be read")
    if not document.text.strip():
        raise Unreadable("there is no text in it")
    return Document(one_line(document.title or "") or None, document.text[:MOST_CHARACTERS])


def one_line(title: str) -> str:
    """A title as it can be shown anywhere: a line, not too long, without control characters."""
    shown = "".join(each if each.isprintable() else " " for each in title[: 4 * MOST_TITLE])
    return " ".join(shown.split())[:MOST_TITLE]


def _decoded(data: bytes) -> str:
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data[:4096] and not is_wide:
        raise Unreadable("it is not text")
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
        raise Unreadable(f"it is not a table: {error}") from None
    return "\n".join(lines) or "; ".join(header)


def _pdf(data: bytes) -> Document:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise Unreadable("PDF needs pypdf; run: pip install 'toolcrib[search]'") from None
    try:
        reader = PdfReader(io.BytesIO(data))
        title = reader.metadata.title if reader.metadata else None
        return Document(title, "\n\n".join(page.extract_text() for page in reader.pages))
    except (PyPdfError, *_PDF_FAULTS) as error:
        raise Unreadable(f"it is not a PDF that can be read: {type(error).__name__}") from None


def _html(text: str) -> Document:
    page = read_page(text)
    return Document(page.title or None, page.text)
