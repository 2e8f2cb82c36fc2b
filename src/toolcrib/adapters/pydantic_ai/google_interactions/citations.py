"""What a text of an interaction cites. Places are given in bytes, and wanted in characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic_ai.messages import (
    Citation,
    CitationSource,
    ContentCitationAnchor,
    DocumentCitationSource,
    WebCitationSource,
)

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import maybe_int, maybe_text, text_of


def citations_of(text: str, annotations: Sequence[Item]) -> list[Citation]:
    """The citations of a text; those whose place is not one of the text's come without it."""
    return list(_citations(text.encode("utf-8", "surrogatepass"), annotations))


def _citations(text: bytes, annotations: Sequence[Item]) -> Iterator[Citation]:
    for note in annotations:
        source = _source(note)
        if source is not None:
            yield Citation([source], anchor=_anchor(text, note))


def _anchor(text: bytes, note: Item) -> ContentCitationAnchor | None:
    # A place at the very start is left out, as zeros are.
    start, end = maybe_int(note, "start_index") or 0, maybe_int(note, "end_index")
    if end is None or not 0 <= start < end <= len(text):
        return None
    try:
        # A place within a character is none: the provider counts something else there.
        before, cited = text[:start].decode(), text[start:end].decode()
    except UnicodeDecodeError:
        return None
    return ContentCitationAnchor(start=len(before), end=len(before) + len(cited))


def _source(note: Item) -> CitationSource | None:
    url = text_of(note, "url")
    if url:
        return WebCitationSource(url, title=maybe_text(note, "title") or maybe_text(note, "name"))
    title = text_of(note, "file_name") or text_of(note, "title") or text_of(note, "source")
    document = text_of(note, "document_uri") or text_of(note, "media_id")
    if not title and not document:
        return None
    return DocumentCitationSource(document_id=document or None, title=title or None)
