"""The readers of provider items trust nothing."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from tests.adapters.openai.samples import JSON_VALUES
from toolcrib.adapters import items

READERS = [
    items.text_of,
    items.maybe_text,
    items.maybe_int,
    items.maybe_float,
    items.mapping_of,
    items.mappings_of,
    items.texts_of,
    items.json_object_of,
]


class Model(BaseModel):
    """Stands for an object of an SDK: aliases, extras, fields that were never set."""

    model_config = ConfigDict(extra="allow")

    kind: int = Field(default=0, alias="type")
    left_out: str | None = None


def test_mappings_and_models_become_plain_json() -> None:
    """E4: what the server sent, under its names, and nothing that it did not send."""
    model = Model.model_construct(type=1, new_field=[2])

    assert items.plain(model) == {"type": 1, "new_field": [2]}
    assert items.plain({"a": 1}) == {"a": 1}
    assert [items.plain(each) for each in (None, 5, "text", [1])] == [{}, {}, {}, {}]


def test_a_model_with_unexpected_values_gives_no_warning() -> None:
    """E4: the SDK does not check what it reads; whoever reads after it must not hear of that."""
    assert items.plain(Model.model_construct(type="not a number")) == {"type": "not a number"}


@pytest.mark.parametrize("reader", READERS)
@given(value=JSON_VALUES, is_there=st.booleans())
def test_no_reader_raises(reader: Any, value: Any, is_there: bool) -> None:
    """E4: any field may be missing or of any type."""
    reader({"field": value} if is_there else {}, "field")


@pytest.mark.parametrize(
    ("reader", "right", "wrong", "instead"),
    [
        (items.text_of, "a", 5, ""),
        (items.maybe_text, "a", 5, None),
        (items.maybe_int, 5, True, None),
        (items.maybe_int, 0, 5.0, None),
        (items.maybe_float, 0.5, True, None),
        (items.maybe_float, 0.5, 10**400, None),
        (items.mapping_of, {"a": 1}, [1], {}),
        (items.mappings_of, [{"a": 1}], {"a": 1}, []),
        (items.mappings_of, [{"a": 1}], "text", []),
        (items.texts_of, ["a"], "abc", []),
    ],
)
def test_a_field_of_another_type_counts_as_missing(
    reader: Any, right: Any, wrong: Any, instead: Any
) -> None:
    """E4: True is no number, and a text is no list of letters."""
    assert reader({"field": right}, "field") == right
    assert reader({"field": wrong}, "field") == instead
    assert reader({}, "field") == instead


def test_members_of_the_wrong_type_are_passed_over() -> None:
    """E4: one odd member does not cost the others."""
    assert items.mappings_of({"field": [1, {"a": 1}, None]}, "field") == [{"a": 1}]
    assert items.texts_of({"field": [1, "a", None, "b"]}, "field") == ["a", "b"]


def test_whole_numbers_are_numbers() -> None:
    """E4: JSON does not tell 1 from 1.0."""
    assert items.maybe_float({"field": 1}, "field") == 1.0
    assert math.isnan(items.maybe_float({"field": math.nan}, "field") or 0)


@pytest.mark.parametrize("text", ["{broken", "[1]", "5", "", "[" * 100_000, None])
def test_only_an_object_is_read_from_json(text: Any) -> None:
    """E4: arguments are text that a model wrote."""
    assert items.json_object_of({"field": '{"a": 1}'}, "field") == {"a": 1}
    assert items.json_object_of({"field": text}, "field") == {}
