"""Names of tools in settings: unknown ones are found, with the tool that was probably meant."""

from __future__ import annotations

import logging

import pytest

from toolcrib.approval.tool_names import UnknownName, check_approval_list, unknown_names
from toolcrib.errors import UsageError

KNOWN = ("read_file", "write_file", "Shell")


@pytest.mark.parametrize(
    ("name", "similar"),
    [("shel", "Shell"), ("raed_file", "read_file"), ("launch", None), ("x_*", None)],
)
def test_a_name_that_fits_no_tool_is_unknown(name: str, similar: str | None) -> None:
    """Names and globs alike; capitals do not hide the tool that was meant."""
    assert unknown_names([name], KNOWN) == (UnknownName(name, similar),)


@pytest.mark.parametrize("name", ["read_file", "*", "*_file", "Shel?"])
def test_a_name_that_fits_a_tool_is_known(name: str) -> None:
    """A glob is known when one tool fits it."""
    assert unknown_names([name], KNOWN) == ()


def test_the_list_may_hold_a_like_name_of_another_toolset(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two names that differ by a word are two tools and not a slip."""
    with caplog.at_level(logging.WARNING):
        check_approval_list(["write_file"], ["read_file"])

    assert "names 'write_file', which is no tool here" in caplog.text


def test_a_misspelt_name_in_the_list_is_refused() -> None:
    """A slip of a letter would leave the tool without its gate."""
    with pytest.raises(UsageError, match="did you mean 'read_file'"):
        check_approval_list(["read_fiel"], KNOWN)
