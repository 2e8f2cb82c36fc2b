"""Arguments: JSON in, typed params out, nothing coerced, nothing unknown."""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from toolcrib.errors import InvalidTool
from toolcrib.tools.params import (
    PreparedParams,
    params_of_function,
    params_of_schema,
    params_of_type,
)


@dataclass
class Filter:
    site: str
    year: int = 2020


@dataclass
class Query:
    text: str
    limit: int = 10
    tags: list[str] = field(default_factory=list[str])
    filter: Filter | None = None


class QueryDict(TypedDict):
    text: str
    filter: Filter


class QueryModel(BaseModel):
    text: str
    filter: Filter | None = None


class Relaxed(BaseModel):
    """A type whose author chose its own rules."""

    model_config = ConfigDict(extra="ignore", strict=False)

    limit: int
    inner: QueryModel | None = None


@dataclass
class Node:
    name: str
    children: list[Node]


@dataclass
class Named:
    """Fields that are called like the words of a schema."""

    default: QueryModel
    type: QueryModel
    config: QueryModel
    metadata: QueryModel


def search(text: str, filter: Filter, model: QueryModel | None = None) -> None: ...


TYPES = [Query, QueryDict, QueryModel]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["text"],
    "additionalProperties": False,
}


def refuses(params: PreparedParams, raw: str) -> bool:
    try:
        params.parse(raw)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("params_type", TYPES)
def test_every_kind_of_type_is_parsed_into_itself(params_type: Any) -> None:
    """T4, N2: the handler gets the type that it declared, nested types included."""
    parsed = params_of_type("t", params_type).parse('{"text": "a", "filter": {"site": "s"}}')

    if params_type is QueryDict:
        assert parsed == {"text": "a", "filter": Filter("s")}
    else:
        assert isinstance(parsed, params_type)
        assert (parsed.text, parsed.filter) == ("a", Filter("s"))


@pytest.mark.parametrize("params_type", TYPES)
@pytest.mark.parametrize(
    "raw",
    [
        '{"text": 5, "filter": {"site": "s"}}',
        '{"text": "a", "filter": {"site": "s", "year": "2020"}}',
        '{"text": "a", "filter": {"site": "s", "year": 20.5}}',
        '{"text": "a", "filter": {"site": "s", "year": true}}',
        '{"text": "a", "filter": {}}',
        '{"text": "a", "filter": []}',
        "[]",
        "null",
        "",
        "{",
        b"\xff",
    ],
)
def test_nothing_is_coerced(params_type: Any, raw: Any) -> None:
    """R45: "2020" is no number and true is none either, at any depth and in any kind of type."""
    assert refuses(params_of_type("t", params_type), raw)


@pytest.mark.parametrize("params_type", TYPES)
@pytest.mark.parametrize(
    "raw",
    [
        '{"text": "a", "filter": {"site": "s"}, "more": 1}',
        '{"text": "a", "filter": {"site": "s", "more": 1}}',
    ],
)
def test_unknown_keys_are_refused(params_type: Any, raw: str) -> None:
    """R45: a key that nobody asked for is a mistake of the caller."""
    assert refuses(params_of_type("t", params_type), raw)


@pytest.mark.parametrize("params_type", TYPES)
def test_the_schema_says_that_unknown_keys_are_refused(params_type: Any) -> None:
    """R45: what the model reads is what is enforced, at every level."""
    schema = params_of_type("t", params_type).schema

    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Filter"]["additionalProperties"] is False


def test_functions_are_as_strict_as_types() -> None:
    """T4, R45: the same rules for arguments of a function, also inside a pydantic model."""
    params = params_of_function("search", search)

    assert params.parse('{"text": "a", "filter": {"site": "s"}}') == {
        "text": "a",
        "filter": Filter("s"),
        "model": None,
    }
    assert refuses(params, '{"text": "a", "filter": {"site": "s"}, "more": 1}')
    assert refuses(params, '{"text": "a", "filter": {"site": "s", "year": "1"}}')
    assert refuses(params, '{"text": "a", "filter": {"site": "s"}, "model": {"text": 5}}')
    assert refuses(params, '{"text": "a", "filter": {"site": "s"}, "model": {"text": "b", "x": 1}}')


def test_a_types_own_rules_win() -> None:
    """A type that says itself what it allows keeps that, and what is inside it does not."""
    params = params_of_type("t", Relaxed)

    assert params.parse('{"limit": "5", "more": 1}') == Relaxed(limit=5)
    assert refuses(params, '{"limit": 5, "inner": {"text": 5}}')
    assert refuses(params, '{"limit": 5, "inner": {"text": "a", "more": 1}}')
    assert "additionalProperties" not in params.schema
    assert params.schema["$defs"]["QueryModel"]["additionalProperties"] is False


def test_a_fields_own_rule_wins() -> None:
    """One field can be lax where the rest is strict."""

    class Lax(BaseModel):
        limit: int = Field(strict=False)
        other: int = 0

    params = params_of_type("t", Lax)

    assert params.parse('{"limit": "5"}') == Lax(limit=5)
    assert refuses(params, '{"limit": 5, "other": "5"}')


def test_field_names_do_not_confuse_the_rules() -> None:
    """Fields called like the words of a schema are as strict as others."""
    params = params_of_type("t", Named)
    good = '{"text": "a"}'

    for wrong in range(4):
        values = ['{"text": 5}' if n == wrong else good for n in range(4)]
        raw = '{{"default": {}, "type": {}, "config": {}, "metadata": {}}}'.format(*values)
        assert refuses(params, raw)


def test_using_a_model_here_does_not_change_the_model() -> None:
    """Strictness is ours: the user's own class behaves as before."""
    params_of_type("t", QueryModel)

    made = QueryModel.model_validate({"text": "a", "more": 1})
    assert made == QueryModel(text="a")
    assert "additionalProperties" not in QueryModel.model_json_schema()


def test_a_type_that_contains_itself_is_an_object_on_top() -> None:
    """Providers want `type: object` on top; a reference would be refused."""
    params = params_of_type("t", Node)

    assert params.schema["type"] == "object"
    assert params.schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert params.parse('{"name": "a", "children": [{"name": "b", "children": []}]}') == Node(
        "a", [Node("b", [])]
    )
    assert refuses(params, '{"name": "a", "children": [{"name": "b", "children": [], "x": 1}]}')


def test_the_schema_has_no_made_up_titles() -> None:
    """Titles that repeat the names cost the model's attention and say nothing."""
    assert "title" not in str(params_of_type("t", Query).schema)


def test_a_field_called_title_stays() -> None:
    """Only made-up titles are left out."""

    @dataclass
    class Book:
        title: str

    assert "title" in params_of_type("t", Book).schema["properties"]


def test_defaults_are_shown() -> None:
    """The model sees what happens when it leaves an argument out."""
    properties = params_of_type("t", Query).schema["properties"]

    assert properties["limit"] == {"type": "integer", "default": 10}
    assert properties["filter"]["default"] is None


def test_a_default_that_json_cannot_carry_is_refused() -> None:
    """No rule could judge it and no approver could see it, so the author has to write another."""
    marker = object()

    def find(text: str, within: Any = marker) -> None: ...

    with pytest.raises(InvalidTool, match="a default of type object cannot be written as JSON"):
        params_of_function("find", find)


@pytest.mark.parametrize("raw", ['{"x": NaN}', '{"x": Infinity}', '{"x": -Infinity}'])
def test_numbers_that_json_does_not_have_are_refused(raw: str) -> None:
    """What cannot be written down again as JSON is not taken."""

    @dataclass
    class Point:
        x: float

    class PointModel(BaseModel):
        x: float

    schema = {"type": "object", "properties": {"x": {"type": "number"}}}
    assert refuses(params_of_type("t", Point), raw)
    assert refuses(params_of_type("t", PointModel), raw)
    assert refuses(params_of_schema("t", schema), raw)


def test_no_params_means_an_empty_object() -> None:
    """X4: a tool without params takes `{}` and gives its handler None."""
    params = params_of_type("t", None)

    assert params.parse("{}") is None
    assert params.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert refuses(params, '{"a": 1}')
    assert refuses(params, "null")


def test_plain_input_is_checked_against_its_schema() -> None:
    """R45: the runtime validates, so that a handler need not; nothing is coerced."""
    params = params_of_schema("t", SCHEMA)

    assert params.parse(b'{"text": "a", "limit": 5}') == {"text": "a", "limit": 5}
    for raw in ('{"text": 5}', "{}", '{"text": "a", "limit": "5"}', '{"text": "a", "x": 1}', "[]"):
        assert refuses(params, raw)
    assert params.schema == SCHEMA


def test_params_that_are_no_object_are_refused() -> None:
    """A model without named fields cannot be a tool's arguments."""
    from pydantic import RootModel

    class Names(RootModel[list[str]]):
        pass

    with pytest.raises(InvalidTool, match="does not describe an object"):
        params_of_type("t", Names)


def test_bytes_and_text_are_both_taken() -> None:
    """Arguments come as text from SDKs and as bytes from sockets."""
    params = params_of_type("t", Query)

    assert params.parse('{"text": "ä"}') == params.parse('{"text": "ä"}'.encode())


def test_an_old_typed_dict_is_refused_with_the_way_out() -> None:
    """Pydantic cannot read `typing.TypedDict` before Python 3.12; the message says what can."""

    class Old(typing.TypedDict):
        text: str

    if sys.version_info >= (3, 12):
        assert params_of_type("t", Old).parse('{"text": "a"}') == {"text": "a"}
    else:
        with pytest.raises(InvalidTool, match=r"typing_extensions\.TypedDict"):
            params_of_type("t", Old)
