"""Options, filters and results of a file search, in words that no provider owns."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, cast, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.citations import FileCitation
from toolcrib.tools.options import check_choice, check_text
from toolcrib.tools.result import NamedFields

ComparisonOperator: TypeAlias = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
CompoundOperator: TypeAlias = Literal["and", "or"]
RetrievalMode: TypeAlias = Literal["hybrid", "semantic", "keyword"]
Scalar: TypeAlias = str | int | float | bool

COMPARISONS: tuple[str, ...] = get_args(ComparisonOperator)
LIST_COMPARISONS = ("in", "nin")
COMPOUNDS: tuple[str, ...] = get_args(CompoundOperator)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one attribute of a file: `Comparison("year", "gte", 2024)`.

    `in` and `nin` (not in) take a tuple of texts or numbers, the others one value.
    """

    key: str
    operator: ComparisonOperator
    value: Scalar | tuple[str | int | float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"Comparison.key must name an attribute, not {self.key!r}")
        _check_operator("Comparison", self.operator, COMPARISONS)
        if self.operator in LIST_COMPARISONS:
            self._check_choices()
        elif not _is_scalar(self.value):
            raise InvalidTool(
                f"Comparison.value must be a text, a finite number or a bool for "
                f"{self.operator!r}, not {self.value!r}"
            )

    def _check_choices(self) -> None:
        choices = self.value
        if not isinstance(choices, tuple) or not choices or not all(map(_is_choice, choices)):
            raise InvalidTool(
                f"Comparison.value must be a tuple of texts or finite numbers for "
                f"{self.operator!r}, and not empty; it is {choices!r}"
            )


@dataclass(frozen=True, slots=True)
class Compound:
    """Files that pass all (`and`) or any (`or`) of the filters."""

    operator: CompoundOperator
    filters: tuple[FileFilter, ...]

    def __post_init__(self) -> None:
        _check_operator("Compound", self.operator, COMPOUNDS)
        if not isinstance(self.filters, tuple) or not self.filters:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool("Compound.filters must be a tuple of at least one filter")
        for member in self.filters:
            check_filter("Compound.filters", member)


FileFilter: TypeAlias = Comparison | Compound


def check_filter(field: str, value: object) -> None:
    """Refuse a value that is not a filter."""
    if not isinstance(value, Comparison | Compound):
        raise InvalidTool(f"{field}: {value!r} is neither a Comparison nor a Compound")


def _check_operator(owner: str, operator: object, known: tuple[str, ...]) -> None:
    if operator not in known:
        raise InvalidTool(f"{owner}.operator must be one of {', '.join(known)}, not {operator!r}")


def _is_scalar(value: object) -> bool:
    return isinstance(value, bool) or _is_choice(value)


def _is_choice(value: object) -> bool:
    match value:
        case bool():
            return False
        case float():
            return math.isfinite(value)
        case _:
            return isinstance(value, str | int)


@dataclass(frozen=True, slots=True)
class HybridWeights:
    """The weights of meaning and of words, when both are searched."""

    embedding: float
    text: float

    def __post_init__(self) -> None:
        _check_number("HybridWeights.embedding", self.embedding)
        _check_number("HybridWeights.text", self.text)
        if self.embedding == self.text == 0:
            raise InvalidTool("HybridWeights: one of embedding and text must be above 0")


@dataclass(frozen=True, slots=True)
class Ranking:
    """How passages are ranked, and the lowest score (0 to 1) that counts."""

    ranker: str | None = None
    """The provider's name of a ranker; `None` takes its default."""
    score_threshold: float | None = None
    hybrid: HybridWeights | None = None

    def __post_init__(self) -> None:
        if self.ranker is not None:
            _check_name("Ranking.ranker", self.ranker)
        if self.score_threshold is not None:
            _check_number("Ranking.score_threshold", self.score_threshold, most=1)
        if not isinstance(self.hybrid, HybridWeights | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"Ranking.hybrid must be HybridWeights or None, not {self.hybrid!r}")


@dataclass(frozen=True, slots=True)
class FileSearchConfig:
    """The vector stores to search, and which results to take. `None`: the provider's default."""

    kind: ClassVar[str] = "file_search"
    vector_store_ids: tuple[str, ...]
    max_results: int | None = None
    filters: FileFilter | None = None
    ranking: Ranking | None = None
    retrieval_mode: RetrievalMode | None = None
    """Whether to search by meaning, by words, or both."""
    instructions: str | None = None
    """How the search is to read and rank what it finds."""

    def __post_init__(self) -> None:
        check_choice(
            "FileSearchConfig.retrieval_mode", self.retrieval_mode, get_args(RetrievalMode)
        )
        check_text("FileSearchConfig.instructions", self.instructions)
        _check_stores(self.vector_store_ids)
        if self.max_results is not None:
            _check_max_results(self.max_results)
        if self.filters is not None:
            check_filter("FileSearchConfig.filters", self.filters)
        if not isinstance(self.ranking, Ranking | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"FileSearchConfig.ranking must be a Ranking or None, not {self.ranking!r}"
            )


def _check_stores(stores: object) -> None:
    if not isinstance(stores, tuple) or not stores:
        raise InvalidTool(
            f"FileSearchConfig.vector_store_ids must be a tuple of at least one id, not {stores!r}"
        )
    for store in cast("tuple[Any, ...]", stores):
        _check_name("FileSearchConfig.vector_store_ids", store)


def _check_max_results(count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidTool(
            f"FileSearchConfig.max_results must be a whole number from 1 on, not {count!r}"
        )


def _check_name(field: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidTool(f"{field}: {name!r} is not a name")


def _check_number(field: str, number: object, *, most: float = sys.float_info.max) -> None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not 0 <= cast("float", number) <= most:
        upper = "" if most == sys.float_info.max else f" to {most}"
        raise InvalidTool(f"{field} must be a number from 0{upper}, not {number!r}")


@dataclass(frozen=True, slots=True)
class FileSearchQuery:
    """The queries of one call."""

    queries: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """The first query; empty when there is none."""
        return self.queries[0] if self.queries else ""


@dataclass(frozen=True, slots=True)
class FileSearchHit:
    """A passage in the results. Providers differ in how much they report."""

    file_id: str
    filename: str = ""
    text: str = ""
    score: float | None = None
    attributes: Mapping[str, str | float | bool] = field(
        default_factory=dict[str, str | float | bool], hash=False
    )
    vector_store_id: str | None = None

    def render(self) -> str:
        """Return the passage under the name of its file."""
        return f"{self.filename or self.file_id}\n{self.text}".strip()


@dataclass(frozen=True, slots=True)
class FileSearchResult(NamedFields):
    """The passages and queries of all calls, and the answer with its citations."""

    results: tuple[FileSearchHit, ...] = ()
    queries: tuple[str, ...] = ()
    citations: tuple[FileCitation, ...] = ()
    text: str = ""
    status: str = "completed"
    """`completed`, or the provider's word for how the search ended; of several searches,
    `completed` when one was."""
    error: str | None = None
    """Why a search failed; of several searches, the first that did."""

    def render(self) -> str:
        """Return the answer, or the passages while there is none."""
        return self.text or "\n\n".join(hit.render() for hit in self.results)
