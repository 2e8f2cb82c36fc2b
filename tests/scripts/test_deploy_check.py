"""The check of deploy/ fails on faults, and says loudly what it could not check."""

import sys

import pytest

from scripts import deploy_check
from scripts.deploy_check import Fault, Skipped, interpolated, main, of_the_machine


def fine() -> None:
    """It is fine."""


def faulty() -> None:
    """It has a fault."""
    raise Fault("line 3")


def out_of_reach() -> None:
    """It needs Docker."""
    raise Skipped("there is no docker")


@pytest.mark.parametrize(
    ("checks", "status", "summary"),
    [
        ((fine,), 0, "1 ok, 0 SKIPPED, 0 failed"),
        ((fine, out_of_reach), 0, "1 ok, 1 SKIPPED, 0 failed"),
        ((faulty, out_of_reach), 1, "0 ok, 1 SKIPPED, 1 failed"),
    ],
)
def test_the_summary_counts_what_was_skipped(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    checks: tuple[object, ...],
    status: int,
    summary: str,
) -> None:
    """A fault fails the run; a check that was not made is not among those that are fine."""
    monkeypatch.setattr(deploy_check, "CHECKS", checks)
    monkeypatch.setattr(sys, "argv", ["deploy_check.py"])

    assert main() == status
    assert summary in capsys.readouterr().out


def test_a_program_that_is_missing_skips() -> None:
    """The machine need not have it."""
    with pytest.raises(Skipped, match="no-such-program"):
        of_the_machine("no-such-program")


def test_variables_of_the_compose_file_are_replaced() -> None:
    """As Docker does it: a value, a default, or an error."""
    text = "a: ${HOST:?say it} b: ${FOLDER:-./here} c: ${HOST}"

    assert interpolated(text, {"HOST": "crib"}) == "a: crib b: ./here c: crib"
    with pytest.raises(Fault, match="HOST"):
        interpolated("${HOST}", {})
