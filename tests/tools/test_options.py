"""The checks of options: what passes, what does not, and what is said."""

from collections.abc import Callable
from functools import partial

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import (
    check_choice,
    check_count,
    check_flag,
    check_named,
    check_names,
    check_text,
)

choice = partial(check_choice, "X.option", choices=("a", "b"))
count = partial(check_count, "X.option", low=1, high=3)
flag = partial(check_flag, "X.option")
named = partial(check_named, "X.option")
names = partial(check_names, "X.option")
text = partial(check_text, "X.option")


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (choice, (None, "a", "b")),
        (count, (None, 1, 3)),
        (flag, (None, True, False)),
        (named, ("a",)),
        (names, ((), ("a", "b"))),
        (text, (None, "a")),
    ],
)
def test_sound_values_pass(check: Callable[[object], None], values: tuple[object, ...]) -> None:
    """H2: None is a choice where it may be one."""
    for value in values:
        check(value)


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (choice, ("c", 1, ["a"])),
        (count, (0, 4, True, 1.0, "1")),
        (flag, (0, "yes")),
        (named, (None, "", " ", 5)),
        (names, ("ab", ["a"], None, ("",), ("a", 5))),
        (text, ("", " ", 5)),
    ],
)
def test_unsound_values_are_refused(
    check: Callable[[object], None], values: tuple[object, ...]
) -> None:
    """H2: with the name of the option."""
    for value in values:
        with pytest.raises(InvalidTool, match=r"X\.option must be"):
            check(value)
