"""What an answer cites: pages, stored files, files of a container, and paths.

Each kind has a `span`: start (inclusive) and end (exclusive) of the citing text in the answer, in
characters, or `None` when the provider marks no text, or marks text outside of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class Citation:
    """A page that the answer cites."""

    url: str
    title: str
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FileCitation:
    """A stored file that the answer cites. Some providers mark a point in the text (`index`), some
    a span; `index` is `None` when there is neither.
    """

    file_id: str
    filename: str = ""
    index: int | None = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """A file that model-written code left in a container. A model chose `filename`: never use it as
    a path.
    """

    container_id: str
    file_id: str
    filename: str
    span: tuple[int, int] | None = None
    """Where the answer mentions the file."""


@dataclass(frozen=True, slots=True)
class ContainerFileCitation(GeneratedFile):
    """A file of a container that the answer cites; it can be downloaded like any generated file."""


@dataclass(frozen=True, slots=True)
class FilePathCitation:
    """A file that the answer gives as a path; `index` is a point in the text."""

    file_id: str
    index: int | None = None
    span: tuple[int, int] | None = None


AnyCitation: TypeAlias = Citation | FileCitation | ContainerFileCitation | FilePathCitation


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedSource:
    """A citation of any kind as a ledger keeps it, where a name says which kind it is."""

    kind: Literal["page", "file", "container_file", "path"]
    url: str | None = None
    title: str = ""
    """The title of a page, or the name of a file."""
    file_id: str | None = None
    container_id: str | None = None
    span: tuple[int, int] | None = None


def cited_source(citation: AnyCitation) -> CitedSource:
    """A citation in the form of a ledger."""
    span = citation.span
    match citation:
        case Citation(url=url, title=title):
            return CitedSource(kind="page", url=url, title=title, span=span)
        case FileCitation(file_id=file_id, filename=name):
            return CitedSource(kind="file", title=name, file_id=file_id, span=span)
        case ContainerFileCitation(container_id=container_id, file_id=file_id, filename=name):
            return CitedSource(
                kind="container_file",
                title=name,
                file_id=file_id,
                container_id=container_id,
                span=span,
            )
        case FilePathCitation(file_id=file_id):
            return CitedSource(kind="path", file_id=file_id, span=span)
        case _:
            assert_never(citation)
