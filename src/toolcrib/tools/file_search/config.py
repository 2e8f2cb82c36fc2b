"""The options of a file search, in words that no provider owns."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.file_search.filters import FileFilter, check_filter


@dataclass(frozen=True, slots=True)
class HybridWeights:
    """How much the meaning and the words of a passage count when both are searched."""

    embedding: float
    text: float

    def __post_init__(self) -> None:
        _check_number("HybridWeights.embedding", self.embedding)
        _check_number("HybridWeights.text", self.text)
        if self.embedding == self.text == 0:
            raise InvalidTool("HybridWeights: one of embedding and text must be above 0")


@dataclass(frozen=True, slots=True)
class Ranking:
    """How passages are ranked, and the lowest score (0 to 1) that still counts."""

    ranker: str | None = None
    """A ranker by the provider's own name; None leaves it to the provider."""
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
    """Which stores to search and what to take from them. None leaves it to the provider."""

    kind: ClassVar[str] = "file_search"
    vector_store_ids: tuple[str, ...]
    max_results: int | None = None
    filters: FileFilter | None = None
    ranking: Ranking | None = None

    def __post_init__(self) -> None:
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
