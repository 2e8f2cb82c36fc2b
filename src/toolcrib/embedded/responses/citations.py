"""Citations: the marks in a backend's text become links and annotations of the message."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.embedded.tools.tool import CitationSource, ContainerFileSource, FileSource, PageSource

_MARK: Final = re.compile(r"\[(S[0-9]{1,6})\]")
_BEGUN: Final = re.compile(r"\[(?:S[0-9]{0,6})?$")
_LINK: Final = re.compile(r"sandbox:(/mnt/data/[^\s)\]\"'<>\\]+)")
_UNLINKABLE: Final = re.compile(r"[\[\]\r\n]+")


@dataclass(frozen=True, slots=True)
class CitedText:
    """Text as the client sees it, and the annotations that begin in it."""

    text: str
    annotations: Sequence[dict[str, Any]] = ()


class CitationWriter:
    """Replaces marks such as `[S1]` in streamed text by links or annotations.

    Offsets count characters of the shown text, and ends are exclusive. A mark without a source
    stays unchanged. Files in `unnamed` are annotated even if the text does not link to them.
    """

    def __init__(
        self,
        sources: Mapping[str, CitationSource],
        *,
        unnamed: Collection[CitationSource] = (),
        in_json: bool = False,
    ) -> None:
        self._sources = sources
        self._unnamed = frozenset(unnamed)
        self._in_json = in_json
        self._held = ""
        self.shown = ""

    def feed(self, text: str) -> CitedText:
        """Add text. The possible start of a mark is held back until the next call."""
        waiting = self._held + text
        begun = _BEGUN.search(waiting)
        cut = begun.start() if begun else len(waiting)
        self._held = waiting[cut:]
        return self._show(waiting[:cut])

    def end(self) -> CitedText:
        """Return the held-back text, with the annotations of container files."""
        rest, self._held = self._held, ""
        shown = self._show(rest)
        return CitedText(shown.text, [*shown.annotations, *self._files()])

    def _show(self, text: str) -> CitedText:
        annotations: list[dict[str, Any]] = []
        pieces: list[str] = []
        length, last = len(self.shown), 0
        for mark in _MARK.finditer(text):
            source = self._sources.get(mark[1])
            if source is None or isinstance(source, ContainerFileSource):
                continue
            before = text[last : mark.start()]
            piece, annotation = self._cite(source, length + len(before))
            pieces += [before, piece]
            annotations.append(annotation)
            length += len(before) + len(piece)
            last = mark.end()
        pieces.append(text[last:])
        cited = "".join(pieces)
        self.shown += cited
        return CitedText(cited, annotations)

    def _cite(self, source: PageSource | FileSource, at: int) -> tuple[str, dict[str, Any]]:
        if isinstance(source, FileSource):
            note = {"type": "file_citation", "index": at}
            return "", {**note, "file_id": source.file_id, "filename": source.filename}
        title = " ".join(_UNLINKABLE.sub(" ", source.title).split()) or source.url
        link = f"[{title}]({source.url})"
        if self._in_json:
            link = json.dumps(link, ensure_ascii=False)[1:-1]
        annotation = {
            "type": "url_citation",
            "url": source.url,
            "title": source.title,
            "start_index": at,
            "end_index": at + len(link),
        }
        return link, annotation

    def _files(self) -> list[dict[str, Any]]:
        """Annotate container files: at their link, or else at the start of the text."""
        files = [
            source for source in self._sources.values() if isinstance(source, ContainerFileSource)
        ]
        newest = {file.path: file for file in files}
        spans = {link[1].rstrip(".,;:"): link.start() for link in _LINK.finditer(self.shown)}
        annotations: list[dict[str, Any]] = []
        for path, source in newest.items():
            start = spans.get(path)
            if start is None and source not in self._unnamed:
                continue
            span = (0, 0) if start is None else (start, start + len("sandbox:") + len(path))
            annotations.append(
                {
                    "type": "container_file_citation",
                    "container_id": source.container_id,
                    "file_id": source.file_id,
                    "filename": source.filename,
                    "start_index": span[0],
                    "end_index": span[1],
                }
            )
        return annotations


class CitationSources:
    """The sources of a conversation by their marks."""

    def __init__(self) -> None:
        self.by_mark: dict[str, CitationSource] = {}
        self._last = 0

    def add(self, sources: Sequence[CitationSource]) -> list[str]:
        """Return the marks of sources, in order. A known source keeps its mark."""
        known = {source: mark for mark, source in self.by_mark.items()}
        marks: list[str] = []
        for source in sources:
            mark = known.get(source) or self._next()
            known[source] = mark
            self.by_mark[mark] = source
            marks.append(mark)
        return marks

    def restore(self, mark: str, source: CitationSource) -> None:
        """Add a source of an earlier response under its mark."""
        self.by_mark[mark] = source
        self._last = max(self._last, int(mark[1:]))

    def _next(self) -> str:
        self._last += 1
        return f"S{self._last}"
