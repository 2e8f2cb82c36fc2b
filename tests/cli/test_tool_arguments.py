"""`key=value` words, read by a schema."""

from typing import Any

import pytest

from toolcrib.cli.arguments import parse_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "flag": {"type": "boolean"},
        "names": {"type": "array"},
        "either": {"type": ["string", "integer"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "some": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        "anything": True,
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=1.0", "1.0"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=null", "null"),
        ("count=3", 3),
        ("count=three", "three"),
        ("flag=true", True),
        ('names=["a"]', ["a"]),
        ("either=3", "3"),
        ("maybe=null", None),
        ("maybe=3", "3"),
        ("some=3", 3),
        ("some=null", None),
        ("anything=3", 3),
        ("anything=word", "word"),
        ("unknown=3", 3),
    ],
)
def test_a_value_is_what_the_schema_takes(word: str, value: Any) -> None:
    """Text stays text where the schema takes text; the rest is JSON if it can be."""
    assert parse_arguments([word], None, SCHEMA) == {word.partition("=")[0]: value}


def test_a_schema_without_properties_takes_any() -> None:
    """What nobody described is JSON if it can be."""
    assert parse_arguments(["a=1", "b=x"], None, {"type": "object"}) == {"a": 1, "b": "x"}
