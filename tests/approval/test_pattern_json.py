"""Patterns as people write them."""

from typing import Any

import pytest

from toolcrib.approval.pattern import Between, Equals, Glob, Not, OneOf, Pattern, Regex
from toolcrib.approval.pattern_json import pattern_text, read_pattern, read_patterns, write_pattern
from toolcrib.errors import InvalidPolicy

WRITTEN: list[tuple[Any, Pattern]] = [
    ("text", Equals("text")),
    (True, Equals(True)),
    (None, Equals(None)),
    (5, Equals(5)),
    ({"glob": "src/**"}, Glob("src/**")),
    ({"regex": "a+"}, Regex("a+")),
    ({"one_of": ["a", 1, None]}, OneOf(("a", 1, None))),
    ({"min": 1}, Between(min=1)),
    ({"min": 1, "max": 2.5}, Between(min=1, max=2.5)),
    ({"not": {"not": "x"}}, Not(Not(Equals("x")))),
]


@pytest.mark.parametrize(("written", "pattern"), WRITTEN)
def test_a_pattern_is_read_and_written_the_same_way(written: Any, pattern: Pattern) -> None:
    """What is written is read as one pattern, and that is written the same way again."""
    assert read_pattern(written) == pattern
    assert write_pattern(pattern) == written


def test_a_pattern_is_shown_on_one_line() -> None:
    """Explanations show patterns as they would be written in a file."""
    assert pattern_text(Not(Glob("src/**"))) == '{"not": {"glob": "src/**"}}'


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ([], "write {one_of: "),
        ({}, "a pattern has one of"),
        ({"globs": "x"}, "did you mean 'glob'"),
        ({"nope": "x"}, "write one of glob, regex"),
        ({"glob": "x", "regex": "y"}, "a pattern has one of"),
        ({"glob": "x", "min": 1}, "a pattern has one of"),
        ({"glob": 5}, "glob is 5; write text"),
        ({"regex": None}, "regex is null; write text"),
        ({"one_of": "a"}, "one_of takes a list"),
        ({"one_of": [["a"]]}, "one_of takes a list"),
        ({"one_of": []}, "one_of is empty"),
        ({"min": "1"}, 'min is "1"; write a number'),
        ({"max": True}, "max is true; write a number"),
        ({"min": None}, "min is null; write a number"),
        ({"not": []}, "write {one_of: "),
    ],
)
def test_a_wrong_pattern_says_what_to_write(written: Any, complaint: str) -> None:
    """Each fault comes with its cure."""
    with pytest.raises(InvalidPolicy) as caught:
        read_pattern(written)

    assert complaint in str(caught.value)


@pytest.mark.parametrize("written", [[], "x", None, {"path": "x"}])
def test_patterns_are_written_by_pointer(written: Any) -> None:
    """Anything but an object of pointers is refused."""
    with pytest.raises(InvalidPolicy):
        read_patterns(written)
