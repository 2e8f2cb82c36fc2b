"""Expressions: they walk into what tools answered, and never make anything up."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.embedded.backends.scenarios.expressions import (
    Fact,
    Facts,
    MissingFact,
    filled,
    filled_text,
)

FACTS = Facts(
    {
        "sales": Fact(
            "rows follow\nand more",
            {"total": 1234.567, "rows": [{"city": "Rome"}, {"city": "Oslo"}], "none": None},
        ),
        "web": Fact("found", {"share": 0.256}, ("S3", "S4")),
        "plain": Fact("  just text\nsecond", None),
        "raw": Fact("x", '{"a": [1, 2]}'),
        "count": Fact("7", 7),
    }
)


@pytest.mark.parametrize(
    ("written", "is_said"),
    [
        ("{{ sales.rows.1.city }}", "Oslo"),
        ("{{sales.total | round 1}}", 1234.6),
        ("{{ sales.total | round }}", 1235),
        ("{{ sales.total | group 2 }}", "1,234.57"),
        ("{{ web.share | percent 1 }}", "25.6%"),
        ("{{ sales.rows | length }}", 2),
        ("{{ sales.rows.0 | json }}", '{"city": "Rome"}'),
        ("{{ raw | parse }}", {"a": [1, 2]}),
        ("{{ plain.text | first_line }}", "just text"),
        ("{{ cite web }}", "[S3]"),
        ("{{ cite web 1 }}", "[S4]"),
        ("{{ count }}", 7),
        ('{{ "{{" }} x }}', "{{ x }}"),
        ("{{ count }} of {{ sales.rows | length }}", "7 of 2"),
        ("no expression", "no expression"),
    ],
)
def test_an_expression_is_what_was_answered(written: str, is_said: Any) -> None:
    """A text that is one expression keeps the value's type; within text it is shown."""
    assert filled(written, FACTS) == is_said
    assert type(filled(written, FACTS)) is type(is_said)


def test_values_are_filled_at_any_depth_and_keep_their_types() -> None:
    """Numbers stay numbers, lists stay lists, and what is no text stays as it is."""
    written = {"a": ["{{ count }}", {"b": "{{ sales.rows }}"}], "c": 1, "d": None, "e": True}
    assert filled(written, FACTS) == {
        "a": [7, {"b": [{"city": "Rome"}, {"city": "Oslo"}]}],
        "c": 1,
        "d": None,
        "e": True,
    }
    assert filled_text("{{ sales.rows.0 }}", FACTS) == '{"city": "Rome"}'
    assert filled("{{ sales.rows | join }}", FACTS) == '{"city": "Rome"}, {"city": "Oslo"}'


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{{ nobody.x }}", "no call of this run is named 'nobody'"),
        ("{{ sales.rows.2.city }}", "there is no '2'"),
        ("{{ sales.profit }}", "there is no 'profit'"),
        ("{{ sales.none }}", "was not answered"),
        ("{{ plain.key }}", "there is no 'key'"),
        ("{{ plain }}", "was not answered"),
        ("{{ cite web 2 }}", "has no source 2; it answered with 2"),
        ("{{ cite sales }}", "has no source 0"),
        ("{{ sales.total | shout }}", "there is no filter 'shout'"),
        ("{{ sales.rows | round 1 }}", "round cannot be applied"),
        ("{{ plain.text | parse }}", "parse cannot be applied"),
        ("{{ 1 + 1 }}", "is no path"),
        ('{{ "open }}', "no text in quotes"),
    ],
)
def test_what_was_not_answered_cannot_be_said(written: str, why: str) -> None:
    """There are no defaults: a missing fact is an error that says which."""
    with pytest.raises(MissingFact, match=why):
        filled(written, FACTS)
