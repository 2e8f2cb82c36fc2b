"""Which files to search, by the attributes that they were stored with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool

ComparisonOperator: TypeAlias = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
CompoundOperator: TypeAlias = Literal["and", "or"]
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


def check_filter(field: str, found: object) -> None:
    """Refuse what is not a filter."""
    if not isinstance(found, Comparison | Compound):
        raise InvalidTool(f"{field}: {found!r} is neither a Comparison nor a Compound")


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
