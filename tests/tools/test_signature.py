"""What docstrings say about arguments, in the three common styles."""

from typing import Any

import pytest

from toolcrib.tools.signature import argument_descriptions, summary


def google(a: int, b: int) -> int:
    """Add two numbers.

    Works for large ones too.

    Args:
        a: The first
            number.
        b (int): The second number.

    Returns:
        The sum.
    """
    return a + b


def numpy(a: int, b: int) -> int:
    """Add two numbers.

    Works for large ones too.

    Parameters
    ----------
    a : int
        The first
        number.
    b : int
        The second number.
    """
    return a + b


def rest(a: int, b: int) -> int:
    """Add two numbers.

    Works for large ones too.

    :param a: The first
        number.
    :param int b: The second number.
    :returns: The sum.
    """
    return a + b


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_every_style_gives_the_same(function: Any) -> None:
    """Google, NumPy and reST: the text before the sections, and each argument's description."""
    assert summary(function) == "Add two numbers.\n\nWorks for large ones too."
    assert argument_descriptions(function) == {"a": "The first number.", "b": "The second number."}


def test_a_docstring_without_sections_describes_no_argument() -> None:
    """A colon in a sentence is no section."""

    def plain(a: int) -> int:
        """Add: one number, no more."""
        return a

    assert summary(plain) == "Add: one number, no more."
    assert argument_descriptions(plain) == {}


def test_a_function_without_a_docstring_says_nothing() -> None:
    """No text is an empty text."""

    def silent(a: int) -> int:
        return a

    assert (summary(silent), argument_descriptions(silent)) == ("", {})


def test_a_section_in_front_leaves_no_summary() -> None:
    """A docstring that starts with its sections describes the arguments and not the tool."""

    def odd(a: int) -> int:
        """
        Args:
            a: A number.
        """  # noqa: D212
        return a

    assert summary(odd) == ""
    assert argument_descriptions(odd) == {"a": "A number."}


def test_an_odd_docstring_does_not_get_in_the_way() -> None:
    """A section without content describes nothing, and is no error."""

    def odd(a: int) -> int:
        return a

    odd.__doc__ = "Add.\n\nArgs:\n"

    assert summary(odd) == "Add."
    assert argument_descriptions(odd) == {}
