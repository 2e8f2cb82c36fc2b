"""The identity of a tool: one exact form of JSON, its digest, and what changed in words."""

import math
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from toolcrib.errors import UsageError
from toolcrib.tools.argument_transform import ArgumentTransform
from toolcrib.tools.function_options import FunctionOptions
from toolcrib.tools.identity import UNBOUND, canonical_json, changes_between
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.tool import Tool

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


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
}


def _client_tool(
    name: str = "search", description: str = "Search.", schema: dict[str, Any] = SCHEMA
) -> Tool[Any, Any]:
    """A tool that the client runs: nothing but its declaration."""
    return Tool[Any, Any](name=name, description=description, calling="input", json_schema=schema)


def _no_effect(input: Any, context: Any) -> None:
    """Do nothing."""


def _digest(tool: Tool[Any, Any]) -> str:
    return prepare(tool).ref.digest


def test_a_tools_digest_is_a_sha256_in_hex() -> None:
    """R50: the same tool has the same digest, now and later, in this process and in another."""
    assert _digest(_client_tool()) == (
        "d1494f6d86d58c659dc9fb2a5c5a1662a9187d894bfd28ebf0977546507084f5"
    )


@pytest.mark.parametrize(
    "changed",
    [
        _client_tool(name="find"),
        _client_tool(description="Find."),
        _client_tool(schema={**SCHEMA, "required": ["a"]}),
        _client_tool(schema={"type": "object", "properties": {"a": {"type": "string"}}}),
        replace(_client_tool(), version="1.0.0"),
        replace(_client_tool(), source="client:b"),
        replace(_client_tool(), output_schema={"type": "string"}),
        replace(_client_tool(), requires_approval=True),
        replace(_client_tool(), is_idempotent=True),
        replace(_client_tool(), is_read_only=True),
        replace(_client_tool(), one_at_a_time=True),
        replace(_client_tool(), timeout=3.0),
        replace(_client_tool(), uses=("other",)),
        replace(_client_tool(), handler=_no_effect),
    ],
)
def test_every_part_of_the_declaration_counts(changed: Tool[Any, Any]) -> None:
    """R50, findings 2: a change of any part is another digest, so old approvals do not fit."""
    assert _digest(changed) != _digest(_client_tool())


def test_the_order_of_a_schema_does_not_count() -> None:
    """R50: a schema that is merely written in another order is the same promise."""
    turned: dict[str, Any] = {
        "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
        "type": "object",
    }

    assert _digest(_client_tool(schema=turned)) == _digest(_client_tool())


def test_every_field_of_a_tool_is_bound_or_left_out_on_purpose() -> None:
    """A new field of `Tool` is part of the identity unless it is named as one that is not."""
    changed: dict[str, Any] = {
        "name": "find",
        "source": "host",
        "version": "1.0.0",
        "description": "Find.",
        "handler": _no_effect,
        "requires_approval": True,
        "is_idempotent": True,
        "is_read_only": True,
        "is_foreign": True,
        "one_at_a_time": True,
        "timeout": 1.0,
        "uses": ("other",),
        "json_schema": {"type": "object"},
        "output_schema": {"type": "string"},
        "function_options": FunctionOptions(defer_loading=True),
        "argument_transform": ArgumentTransform(fixed={"a": "x"}),
    }
    first = _digest(_client_tool())

    assert {*changed, "params_type", *UNBOUND} == {field.name for field in fields(Tool)}
    for name, value in changed.items():
        assert _digest(replace(_client_tool(), **{name: value})) != first, name


def test_what_changed_is_said_in_words_and_the_weightiest_first() -> None:
    """The lines name version, place and code before the rest, and never nothing at all."""
    old = prepare(_client_tool()).identity.parts
    changed = replace(
        _client_tool(description="Search the whole shop."),
        version="1.0.0",
        requires_approval=True,
        handler=_no_effect,
    )
    lines = changes_between(old, prepare(changed).identity.parts)

    assert lines[:2] == ("version: 0.0.0 -> 1.0.0", "place: client -> local")
    assert lines[2].startswith("code: not set -> ")
    assert lines[3:] == (
        "description: Search. -> Search the whole shop.",
        "requires_approval: off -> on",
    )
    assert changes_between(old, old) == ("something changed that cannot be shown",)
    assert changes_between({}, old) == ("something changed that cannot be shown",)
