"""Digests: one exact form of JSON, and a fingerprint of what a tool promises."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from toolcrib.errors import UsageError
from toolcrib.tools.identity import canonical_json, tool_digest

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcxyz/~é"), inner),
)


def test_keys_are_sorted_and_nothing_is_spaced() -> None:
    """One value has one form, whatever order it was written in."""
    assert canonical_json({"b": [1, 2.5], "a": {"d": None, "c": "é"}}) == (
        '{"a":{"c":"é","d":null},"b":[1,2.5]}'.encode()
    )


def test_what_pydantic_takes_can_be_written() -> None:
    """Dataclasses, dates and numbers as keys have one form too."""

    @dataclass
    class Point:
        y: int
        x: datetime

    value = {2: Point(1, datetime(2026, 1, 2, tzinfo=UTC))}

    assert canonical_json(value) == b'{"2":{"x":"2026-01-02T00:00:00Z","y":1}}'


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf], object(), {"a": object()}])
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    """A digest over something that cannot be written down proves nothing."""
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        canonical_json(value)


@given(json_values)
def test_the_form_is_a_fixed_point(value: Any) -> None:
    """Written, read and written again, it is the same."""
    once = canonical_json(value)

    assert canonical_json(from_json(once)) == once


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


def test_a_tools_digest_is_a_sha256_in_hex() -> None:
    """R50: the same name, description and schema give the same digest, now and later."""
    assert tool_digest("search", "Search.", SCHEMA) == (
        "cdf2b27930be9337f7ee4f38339239f40167dd3259bd55be33db1606ef91abd0"
    )


@pytest.mark.parametrize(
    "changed",
    [
        ("find", "Search.", SCHEMA),
        ("search", "Find.", SCHEMA),
        ("search", "Search.", {**SCHEMA, "required": ["a"]}),
        ("search", "Search.", {"type": "object", "properties": {"a": {"type": "string"}}}),
    ],
)
def test_every_part_of_the_promise_counts(changed: tuple[str, str, dict[str, Any]]) -> None:
    """R50: another name, description or schema is another digest, so old approvals do not fit."""
    assert tool_digest(*changed) != tool_digest("search", "Search.", SCHEMA)


def test_the_order_of_a_schema_does_not_count() -> None:
    """R50: a schema that is merely written in another order is the same promise."""
    turned: dict[str, Any] = {
        "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
        "type": "object",
    }

    assert tool_digest("search", "Search.", turned) == tool_digest("search", "Search.", SCHEMA)
