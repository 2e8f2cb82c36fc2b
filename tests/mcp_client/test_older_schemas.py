"""Schemas of older drafts: the same rules, in today's words."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema_rs import Draft7Validator, Draft202012Validator

from toolcrib.mcp_client.tool_list import as_draft_2020_12
from toolcrib.tools.json_schema import check_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        pytest.param(
            {"properties": {"pair": {"items": [{"type": "string"}, {"type": "integer"}]}}},
            [{"pair": ["a", 1]}, {"pair": [1, "a"]}, {"pair": ["a", 1, True]}],
            id="items by place",
        ),
        pytest.param(
            {"properties": {"one": {"items": [{"type": "string"}], "additionalItems": False}}},
            [{"one": ["a"]}, {"one": ["a", "b"]}],
            id="no further items",
        ),
        pytest.param(
            {"dependencies": {"card": ["name"], "gift": {"required": ["note"]}}},
            [{"card": 1}, {"card": 1, "name": 2}, {"gift": 1}, {"gift": 1, "note": 2}],
            id="dependencies",
        ),
        pytest.param(
            {
                "definitions": {"n": {"type": "integer"}},
                "properties": {"a": {"$ref": "#/definitions/n"}},
            },
            [{"a": 1}, {"a": "x"}],
            id="definitions",
        ),
        pytest.param(
            {"properties": {"items": {"enum": [[1]]}, "dependencies": {"const": {"a": ["b"]}}}},
            [{"items": [1]}, {"items": [2]}, {"dependencies": {"a": ["b"]}}, {"dependencies": 1}],
            id="words that are only names",
        ),
    ],
)
def test_a_schema_means_the_same(schema: dict[str, Any], values: list[Any]) -> None:
    """What fitted the older schema fits the new one, and nothing else does."""
    older = {"$schema": DRAFT_7, "type": "object", **schema}
    newer = check_schema("any", as_draft_2020_12(older))

    told = [Draft202012Validator(newer).is_valid(value) for value in values]
    assert told == [Draft7Validator(older).is_valid(value) for value in values]
    assert True in told
    assert False in told


def test_a_schema_of_today_is_left_alone() -> None:
    """Only a schema that says it is older is rewritten."""
    schema = {"type": "object", "dependencies": {"a": ["b"]}}

    assert as_draft_2020_12(schema) == schema


def test_a_schema_that_is_too_deep_is_refused() -> None:
    """Nobody can take the process down with a schema."""
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = {"not": schema}

    with pytest.raises(ValueError, match="too deep"):
        as_draft_2020_12({"$schema": DRAFT_7, "type": "object", "not": schema})
