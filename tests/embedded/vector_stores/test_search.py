"""Filters on the attributes of files."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.embedded.vector_stores.search import read_filter
from toolcrib.errors import ApiFault

FILE = {"year": 2024, "author": "ada", "draft": False, "score": 1.5, "one": 1}


def compare(type_: str, key: str, value: object) -> dict[str, Any]:
    return {"type": type_, "key": key, "value": value}


@pytest.mark.parametrize(
    ("told", "passes"),
    [
        (compare("eq", "author", "ada"), True),
        (compare("eq", "author", "Ada"), False),
        (compare("ne", "author", "bob"), True),
        (compare("gt", "year", 2023), True),
        (compare("gt", "year", 2024), False),
        (compare("gte", "year", 2024.0), True),
        (compare("lt", "score", 2), True),
        (compare("lte", "score", 1.4), False),
        (compare("in", "author", ["bob", "ada"]), True),
        (compare("nin", "author", ["bob"]), True),
        (compare("nin", "author", ["ada"]), False),
        (compare("gt", "author", "aaa"), True),
    ],
)
def test_a_comparison(told: dict[str, Any], passes: bool) -> None:
    """Each of the eight, on text and on numbers."""
    assert read_filter(told, "filters")(FILE) is passes


@pytest.mark.parametrize(
    ("told", "passes"),
    [
        (compare("eq", "one", True), False),
        (compare("eq", "draft", 0), False),
        (compare("eq", "draft", False), True),
        (compare("in", "one", [True]), False),
        (compare("eq", "year", "2024"), False),
        (compare("gt", "year", "2000"), False),
        (compare("lt", "author", 5), False),
        (compare("gt", "draft", -1), False),
        (compare("eq", "missing", "x"), False),
        (compare("ne", "missing", "x"), True),
        (compare("lt", "missing", 5), False),
        (compare("nin", "missing", ["x"]), True),
    ],
)
def test_types_are_not_mixed_up(told: dict[str, Any], passes: bool) -> None:
    """True is not 1, text is not a number, and what is not there is neither more nor less."""
    assert read_filter(told, "filters")(FILE) is passes


def test_filters_nest() -> None:
    """`and` and `or`, in each other."""
    old = compare("lt", "year", 2000)
    by_ada = compare("eq", "author", "ada")
    new = compare("gte", "year", 2024)
    either: dict[str, Any] = {
        "type": "or",
        "filters": [old, {"type": "and", "filters": [by_ada, new]}],
    }
    passes = read_filter(either, "filters")
    assert passes(FILE)
    assert passes({"year": 1990})
    assert not passes({"year": 2024, "author": "bob"})


@pytest.mark.parametrize(
    ("told", "param"),
    [
        ("author", "filters"),
        ({}, "filters.key"),
        (compare("like", "author", "a%"), "filters.type"),
        ({"type": "eq", "value": 1}, "filters.key"),
        (compare("eq", "a", None), "filters.value"),
        (compare("eq", "a", [1]), "filters.value"),
        (compare("gt", "a", {}), "filters.value"),
        (compare("in", "a", "ada"), "filters.value"),
        ({"type": "and", "filters": []}, "filters.filters"),
        (
            {"type": "or", "filters": [compare("eq", "a", 1), {"type": "no"}]},
            "filters.filters[1].key",
        ),
    ],
)
def test_a_filter_that_is_wrong_is_refused(told: object, param: str) -> None:
    """The answer names the place, however deep it is."""
    with pytest.raises(ApiFault) as caught:
        read_filter(told, "filters")
    assert caught.value.param == param


def test_a_filter_must_not_be_too_deep() -> None:
    """Nobody nests that much for a good reason."""
    told: dict[str, Any] = compare("eq", "a", 1)
    for _ in range(500):
        told = {"type": "and", "filters": [told]}
    with pytest.raises(ApiFault, match="nested at most 16 deep"):
        read_filter(told, "filters")
