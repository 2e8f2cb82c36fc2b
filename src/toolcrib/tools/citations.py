"""What an answer cites: pages, stored files, files of a container, and paths.

Each kind has a `span`: start (inclusive) and end (exclusive) of the citing text in the answer, in
characters, or `None` when the provider marks no text, or marks text outside of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


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
