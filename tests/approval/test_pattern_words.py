"""Patterns in words: what a person types at the prompt, without JSON."""

import pytest

from toolcrib.approval.pattern import Between, Equals, Glob, Pattern
from toolcrib.approval.pattern_words import read_typed_patterns
from toolcrib.errors import UsageError

CALL = {"path": "src/a.py", "kilos": 480, "express": True, "a/b": "x", "note": "two words"}


@pytest.mark.parametrize(
    ("typed", "patterns"),
    [
        ("path=src/**", {"/path": Glob("src/**")}),
        ("path=src/a.py", {"/path": Equals("src/a.py")}),
        ("kilos=480", {"/kilos": Equals(480)}),
        ("kilos<=480", {"/kilos": Between(max=480)}),
        ("kilos>=60", {"/kilos": Between(min=60)}),
        ("kilos>=60 kilos<=480", {"/kilos": Between(min=60, max=480)}),
        ("kilos<=480 kilos>=60", {"/kilos": Between(min=60, max=480)}),
        ("express=true path=*.py", {"/express": Equals(value=True), "/path": Glob("*.py")}),
        ("note='two words'", {"/note": Equals("two words")}),
        ("/a~1b=x", {"/a~1b": Equals("x")}),
        ('{"/path": {"glob": "src/**"}}', {"/path": Glob("src/**")}),
    ],
)
def test_words_are_patterns(typed: str, patterns: dict[str, Pattern]) -> None:
    """Looks: a name, a sign and a value, or the same JSON as in a policy file."""
    assert read_typed_patterns(typed, CALL) == patterns


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("pth=src/**", "did you mean 'path'"),
        ("zzz=1", "it has path, kilos"),
        ("path", "none of name=value"),
        ("kilos<=many", "neither a number"),
        ("kilos<=true", "takes a number"),
        ("kilos=[1]", "no single value"),
        ("path='open", "a quote is open"),
        ("path=a path=b", "is there twice"),
        ("   ", "no pattern was typed"),
        ("{broken", "neither a number nor other JSON"),
        ('{"path": "x"}', "/"),
    ],
)
def test_a_fault_says_what_to_type(typed: str, why: str) -> None:
    """Nothing unclear becomes a grant."""
    with pytest.raises(UsageError, match=why):
        read_typed_patterns(typed, CALL)
