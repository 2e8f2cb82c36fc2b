"""Citations of the Messages API: the sources that a text may cite, and their marks."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

_SENTENCE: Final = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$|[.!?](?=\S))")
_WORD: Final = re.compile(r"\w+")
MAX_CITED: Final = 150
"""Characters of a page that a citation repeats, as in Anthropic's API."""


@dataclass(frozen=True, slots=True)
class SearchedPage:
    """A page that a search has found."""

    url: str
    title: str
    text: str

    @property
    def name(self) -> str:
        """The page as a list of sources shows it."""
        return f"{self.title}: {self.url}"

    def citation(self, claim: str) -> dict[str, Any]:
        """The citation of the page for a text."""
        start, end = passage(self.text, claim)
        return {
            "type": "web_search_result_location",
            "url": self.url,
            "title": self.title,
            "cited_text": self.text[start:end][:MAX_CITED],
            "encrypted_index": packed({"url": self.url, "at": start}),
        }


@dataclass(frozen=True, slots=True)
class CitedDocument:
    """A document of the conversation whose citations the request has enabled."""

    index: int
    title: str | None
    text: str
    file_id: str | None = None

    @property
    def name(self) -> str:
        """The document as a list of sources shows it."""
        return self.title or f"document {self.index}"

    def citation(self, claim: str) -> dict[str, Any]:
        """The citation of the document for a text."""
        start, end = passage(self.text, claim)
        return {
            "type": "char_location",
            "cited_text": self.text[start:end],
            "document_index": self.index,
            "document_title": self.title,
            "file_id": self.file_id,
            "start_char_index": start,
            "end_char_index": end,
        }


Source: TypeAlias = SearchedPage | CitedDocument


class SourceMarks:
    """The sources of a conversation by their marks. The same conversation gives the same marks."""

    def __init__(self) -> None:
        self.by_mark: dict[str, Source] = {}

    def add(self, sources: Iterable[Source]) -> tuple[str, ...]:
        """The marks of sources, in order. A known source keeps its mark."""
        known = {_key(source): mark for mark, source in self.by_mark.items()}
        marks: list[str] = []
        for source in sources:
            mark = known.setdefault(_key(source), f"S{len(self.by_mark) + 1}")
            self.by_mark.setdefault(mark, source)
            marks.append(mark)
        return tuple(marks)


def passage(text: str, claim: str) -> tuple[int, int]:
    """The sentence of a text that shares most words with a claim: its start and its end."""
    wanted = set(_words(claim))
    best, place = -1.0, (0, len(text))
    for sentence in _SENTENCE.finditer(text):
        words = _words(sentence[0])
        score = len(wanted & set(words)) - len(words) / 1000
        if words and score > best:
            lead = len(sentence[0]) - len(sentence[0].lstrip())
            best, place = score, (sentence.start() + lead, sentence.end())
    start, end = place
    return start, start + len(text[start:end].rstrip())


def packed(facts: Any) -> str:
    """Facts as the opaque text of an `encrypted_…` field: encoded, not secret."""
    return base64.urlsafe_b64encode(json.dumps(facts, ensure_ascii=False).encode()).decode()


def unpacked(text: object) -> dict[str, Any]:
    """The facts of an opaque text; nothing for one that is not of this provider."""
    if not isinstance(text, str):
        return {}
    try:
        facts: Any = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], facts) if isinstance(facts, dict) else {}


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _key(source: Source) -> object:
    # The same page may come with different parts of its text.
    return source.url if isinstance(source, SearchedPage) else source
