"""Patterns on arguments: whole values, exact types, and doubt that never helps a call."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from toolcrib.approval.globs import Stance
from toolcrib.approval.pattern import (
    Between,
    Equals,
    Glob,
    Not,
    OneOf,
    Pattern,
    Regex,
    checked_patterns,
    first_mismatch,
    matches,
)
from toolcrib.errors import InvalidPolicy

BOTH: tuple[Stance, Stance] = ("narrow", "wide")


@pytest.mark.parametrize(
    ("pattern", "value", "is_match"),
    [
        (Equals("a"), "a", True),
        (Equals("a"), "ab", False),
        (Equals("1"), 1, False),
        (Equals(1), 1, True),
        (Equals(1), 1.0, True),
        (Equals(1), True, False),
        (Equals(True), True, True),
        (Equals(True), 1, False),
        (Equals(False), 0, False),
        (Equals(None), None, True),
        (Equals(None), "", False),
        (Equals("a"), ["a"], False),
        (Equals({"a": [1, True]}), {"a": [1, True]}, True),
        (Equals({"a": [1, True]}), {"a": [1, 1]}, False),
        (Equals({"a": 1}), {"a": 1, "b": 2}, False),
        (Equals({"a": 1, "b": 2}), {"a": 1, "b": 3}, False),
        (Equals([1, 2]), [1, 3], False),
        (Equals([1]), [1, 2], False),
        (Glob("*.txt"), "a.txt", True),
        (Glob("*"), 5, False),
        (Glob("*"), ["a"], False),
        (Regex("git (status|log)"), "git log", True),
        (Regex("git (status|log)"), "git log; rm -rf /", False),
        (Regex("git (status|log)"), "x git log", False),
        (Regex("git (status|log)"), "git log\n", False),
        (Regex("[0-9]+"), 5, False),
        (OneOf(("a", 2, None)), 2, True),
        (OneOf(("a", 2, None)), None, True),
        (OneOf(("a", 1)), True, False),
        (OneOf(("a", 1)), "b", False),
        (Between(min=1, max=3), 1, True),
        (Between(min=1, max=3), 3.0, True),
        (Between(min=1, max=3), 3.1, False),
        (Between(min=1), 10**400, True),
        (Between(max=3), -5, True),
        (Between(min=0, max=1), True, False),
        (Between(min=0), float("nan"), False),
        (Not(Equals("prod")), "dev", True),
        (Not(Equals("prod")), "prod", False),
        (Not(OneOf((1, 2))), 3, True),
        (Not(Not(Equals(1))), 1, True),
        (Not(Glob("src/**")), "docs/a", True),
        (Not(Glob("src/**")), "src/a", False),
    ],
)
def test_a_pattern_matches_whole_values_of_its_type(
    pattern: Pattern, value: Any, is_match: bool
) -> None:
    """For plainly spelled values allow and deny rules agree on what matches."""
    assert [matches(pattern, value, stance) for stance in BOTH] == [is_match, is_match]


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (Glob("/data/**"), "/data/../etc/passwd"),
        (Regex("(?s:.*)"), "\ud800"),
        (Not(Glob("/etc/**")), "/tmp/../etc/passwd"),
        (Not(Glob("/etc/**")), "../../x"),
        (Not(Glob("/etc/**")), ["/etc/passwd"]),
        (Not(Glob("/etc/**")), 5),
        (Not(Regex("a.*")), 5),
        (Not(Between(min=100)), "500"),
        (Not(Equals("prod")), ["prod"]),
        (Not(Not(Glob("/data/**"))), "/data/../etc/passwd"),
        (Not(Not(Not(Glob("/etc/**")))), "/tmp/../etc/passwd"),
    ],
)
def test_a_doubtful_value_never_helps_an_allow(pattern: Pattern, value: Any) -> None:
    """Where a pattern cannot be sure of a value, an allow rule does not match, also under `not`."""
    assert not matches(pattern, value, "narrow")


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (Glob("/etc/**"), "/tmp/../etc/passwd"),
        (Not(Glob("/data/**")), "/data/../etc/passwd"),
        (Not(Glob("/data/**")), ["/data/x"]),
        (Not(OneOf(("a",))), {"a": 1}),
        (Not(Between(max=100)), "500"),
        (Regex(r"rm .*"), "rm \ud800"),
    ],
)
def test_a_doubtful_value_does_not_dodge_a_deny(pattern: Pattern, value: Any) -> None:
    """Where a pattern cannot be sure of a value, a deny or ask rule matches, also under `not`."""
    assert matches(pattern, value, "wide")


@pytest.mark.parametrize(
    ("pointer", "arguments", "narrow", "wide"),
    [
        ("/a", {"a": "x"}, True, True),
        ("/a", {"a": "y"}, False, False),
        ("/a", {}, False, False),
        ("/a/b", {"a": {"b": "x"}}, True, True),
        ("/a/b", {"a": "x"}, False, False),
        ("/a/0", {"a": "x"}, False, False),
        ("/a/0", {"a": 5}, False, False),
        ("/a/1", {"a": ["y", "x"]}, True, True),
        ("/a/01", {"a": ["y", "x"]}, False, False),
        ("/a/2", {"a": ["y", "x"]}, False, False),
        ("/a/-1", {"a": ["y", "x"]}, False, False),
        ("/a~1b", {"a/b": "x"}, True, True),
        ("/a~0b", {"a~b": "x"}, True, True),
        ("/a~01", {"a~1": "x"}, True, True),
        ("/*", {"a": "x", "b": "x"}, True, True),
        ("/*", {"a": "x", "b": "y"}, False, True),
        ("/a/*", {"a": ["x", "x"]}, True, True),
        ("/a/*", {"a": ["x", "y"]}, False, True),
        ("/a/*", {"a": []}, False, False),
        ("/a/*/b", {"a": [{"b": "x"}, {}]}, False, True),
        ("/a/*/b", {"a": [{"b": "x"}, {"b": "x"}]}, True, True),
        ("/a/*", {"a": "x"}, False, False),
    ],
)
def test_a_pointer_leads_to_values(
    pointer: str, arguments: dict[str, Any], narrow: bool, wide: bool
) -> None:
    """A missing value never matches. Behind `*` every element must match for an allow, and one is
    enough for a deny.
    """
    patterns = {pointer: Equals("x")}

    assert (first_mismatch(patterns, arguments, "narrow") is None) is narrow
    assert (first_mismatch(patterns, arguments, "wide") is None) is wide


def test_none_is_a_value_and_not_missing() -> None:
    """An argument that is null is there; an argument that is left out is not."""
    assert first_mismatch({"/a": Equals(None)}, {"a": None}, "narrow") is None
    assert first_mismatch({"/a": Equals(None)}, {}, "narrow") == "/a"
    assert first_mismatch({"/a": Not(Equals("x"))}, {}, "wide") == "/a"


def test_every_pattern_must_match() -> None:
    """Patterns are conditions that all hold; the first that fails is named."""
    patterns = {"/a": Equals(1), "/b": Equals(2), "/c": Equals(3)}

    assert first_mismatch(patterns, {"a": 1, "b": 0, "c": 0}, "wide") == "/b"
    assert first_mismatch({}, {"a": 1}, "narrow") is None


def bad_patterns() -> list[Any]:
    return [
        lambda: Glob(""),
        lambda: Regex("("),
        lambda: OneOf(()),
        lambda: Between(),
        lambda: Between(min=3, max=1),
        lambda: Between(min=float("inf")),
        lambda: Between(min=1, max=float("inf")),
        lambda: Between(max=float("nan")),
        lambda: Between(min=True),
        lambda: checked_patterns({"path": Equals(1)}),
        lambda: checked_patterns({"/a~2": Equals(1)}),
        lambda: checked_patterns({"/a": "plain text"}),  # pyright: ignore[reportArgumentType]
    ]


@pytest.mark.parametrize("make", bad_patterns())
def test_a_pattern_that_could_never_be_judged_is_refused(make: Any) -> None:
    """A fault shows when the pattern is made, not when a call slips past it."""
    with pytest.raises(InvalidPolicy):
        make()


@pytest.mark.parametrize(
    "pattern",
    [
        Equals(True),
        Equals(1),
        Equals(1.5),
        Equals(None),
        Equals({"a": [1, None]}),
        Glob("src/**"),
        Regex("a+"),
        OneOf(("a", 1, True, None, 2.5)),
        Between(min=1),
        Between(min=1, max=2.5),
        Not(Not(Glob("*"))),
    ],
)
def test_a_pattern_survives_json(pattern: Pattern) -> None:
    """Grants live in the store as JSON, and come back with the same types of values."""
    adapter: TypeAdapter[Pattern] = TypeAdapter(Pattern)

    restored = adapter.validate_json(adapter.dump_json(pattern))

    assert restored == pattern
    assert repr(restored) == repr(pattern)


@pytest.mark.parametrize("text", ["5", "1e3", "1000000.00000000000000000001", "Infinity"])
def test_a_number_in_a_text_meets_a_deny_and_no_allow(text: str) -> None:
    """A decimal of many digits is written as a text, and must not slip under a limit."""
    assert matches(Between(min=0), text, "wide")
    assert not matches(Between(min=0), text, "narrow")
    assert not matches(Not(Between(min=9**99)), text, "narrow")


@pytest.mark.parametrize("text", ["", "five", "NaN", "5 apples"])
def test_other_texts_are_in_no_range(text: str) -> None:
    """Only a text that spells a number is taken for one."""
    assert not matches(Between(min=0), text, "wide")
