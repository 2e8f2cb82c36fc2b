"""A file that is taken without its schema fits its schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from toolcrib.project import project_schema
from toolcrib.project.project_file import is_plain

VALIDATOR = Draft202012Validator(project_schema())
TEXTS = st.sampled_from(["", " ", "tools", "a.b", "a..b", "1a", "a-b", "policy.yaml", "é", "a\n"])
VALUES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.lists(TEXTS, max_size=3))
SECTIONS = st.dictionaries(
    st.sampled_from(["tools", "policy", "store", "serve", "polcy", "hooks"]),
    st.one_of(
        VALUES,
        st.dictionaries(st.sampled_from(["modules", "files", "plugins", "moduls"]), VALUES),
    ),
    max_size=4,
)


@given(st.one_of(SECTIONS, VALUES))
def test_what_is_plain_is_valid(document: Any) -> None:
    """No fault is passed over for speed."""
    if is_plain(document):
        assert VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        {"tools": {"modules": ["workshop"]}, "policy": "policy.yaml", "store": "crib.sqlite3"},
        {"tools": {"modules": ["app.tools", "more"]}},
        {"store": "crib.sqlite3"},
        {},
    ],
)
def test_a_small_project_is_plain(document: Any) -> None:
    """What `toolcrib init` writes is read without the schema."""
    assert is_plain(document)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"polcy": "policy.yaml"},
        {"policy": " "},
        {"tools": {"modules": ["a", "a"]}},
        {"tools": {"modules": ["a b"]}},
        {"tools": {"modules": "workshop"}},
        {"tools": {"modules": ["a"], "plugins": True}},
        {"serve": {"port": 1}},
    ],
)
def test_everything_else_is_held_against_the_schema(document: Any) -> None:
    """Faults are found, and larger projects are judged by the published rules."""
    assert not is_plain(document)
