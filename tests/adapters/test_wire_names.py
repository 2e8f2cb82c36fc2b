"""Names that a provider takes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapters.tool_declarations import wire_names

NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True)


@given(st.lists(NAMES, unique=True))
def test_every_name_gets_one_that_the_provider_takes(names: list[str]) -> None:
    """Whatever tools are called, wire names are short, plain and unique, and names that are so
    already stay as they are.
    """
    found = wire_names(names)

    assert list(found) == names
    assert len(set(found.values())) == len(names)
    for name, wire in found.items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire)
        if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            assert wire == name


def test_a_name_is_derived_so_that_people_know_it() -> None:
    """Dots become underscores; what would clash gets a suffix."""
    found = wire_names(["app.query", "app_query", "app-query"])

    assert found["app_query"] == "app_query"
    assert re.fullmatch(r"app_query_[0-9a-f]{8}", found["app.query"])
    assert wire_names(["app.query"]) == {"app.query": "app_query"}


def test_names_do_not_depend_on_what_else_is_long() -> None:
    """A long name keeps its beginning and gets a digest of the whole."""
    first, second = "a" * 100 + ".x", "a" * 100 + ".y"

    found = wire_names([first, second])

    assert found[first] != found[second]
    assert all(wire.startswith("a" * 55) for wire in found.values())
