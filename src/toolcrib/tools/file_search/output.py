"""What a file search gives back, whoever ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FileSearchQuery:
    """What one call of a search looked for."""

    queries: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """The first of the queries; empty when nothing was looked for."""
        return self.queries[0] if self.queries else ""


@dataclass(frozen=True, slots=True)
class FileSearchHit:
    """A passage that was found. Providers differ in how much they tell of it."""

    file_id: str
    filename: str = ""
    text: str = ""
    score: float | None = None
    attributes: Mapping[str, str | float | bool] = field(
        default_factory=dict[str, str | float | bool], hash=False
    )
    vector_store_id: str | None = None

    def render(self) -> str:
        """The passage under the name of its file."""
        return f"{self.filename or self.file_id}\n{self.text}".strip()


@dataclass(frozen=True, slots=True)
class FileCitation:
    """A file that the answer relies on; `index` is the place in its text that cites it. None when
    that text is not part of the answer.
    """

    file_id: str
    filename: str = ""
    index: int | None = None


@dataclass(frozen=True, slots=True)
class FileSearchResult:
    """What was found for the queries, and the answer with what it cites."""

    results: tuple[FileSearchHit, ...] = ()
    queries: tuple[str, ...] = ()
    citations: tuple[FileCitation, ...] = ()
    text: str = ""

    def render(self) -> str:
        """The answer, or the passages as long as there is none."""
        return self.text or "\n\n".join(hit.render() for hit in self.results)
