"""What can be asked of a sandbox is checked before anything runs."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.sandbox import Command, CommandResult, SandboxLimits, SandboxOptions

TRUE = ("/bin/true",)


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"argv": ()}, "argv is empty"),
        ({"argv": ("a\0b",)}, "NUL"),
        ({"argv": TRUE, "env": {"A": "\0"}}, "NUL"),
        ({"argv": TRUE, "env": {"A=B": ""}}, "contains '='"),
        ({"argv": TRUE, "env": {"": ""}}, "empty"),
        ({"argv": TRUE, "readable": (Path("/no/such"),)}, "the readable path '/no/such'"),
        ({"argv": TRUE, "readable": (Path("/usr/.."),)}, "would let the command read everything"),
        ({"argv": TRUE, "network": True, "proxy": Path("/tmp")}, "a network or a proxy"),
        ({"argv": TRUE, "work_at": PurePosixPath("data")}, "outside the system's folders"),
        ({"argv": TRUE, "work_at": PurePosixPath("/")}, "outside the system's folders"),
        ({"argv": TRUE, "work_at": PurePosixPath("/usr/lib")}, "outside the system's folders"),
        ({"argv": TRUE, "work_at": PurePosixPath("/mnt/../usr")}, "outside the system's folders"),
    ],
)
def test_a_command_is_checked(facts: dict[str, Any], complaint: str) -> None:
    """A command that could not be confined as it says is not made."""
    with pytest.raises(UsageError, match=complaint):
        Command(**facts)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5", None])
def test_limits_are_numbers_above_nothing(value: Any) -> None:
    """R44: a limit cannot be taken away by writing it wrong."""
    with pytest.raises(UsageError, match="the limit processes must be"):
        SandboxLimits(processes=value)


def test_only_the_clock_can_be_left_out() -> None:
    """A process that is kept open has no end of its own."""
    assert SandboxLimits(seconds=None).seconds is None
    assert SandboxLimits(seconds=0.5).seconds == 0.5


@pytest.mark.parametrize(
    ("exit_code", "killed_by", "timed_out", "success"),
    [
        (0, None, False, True),
        (1, None, False, False),
        (137, "wall_clock", True, False),
        (152, "cpu", True, False),
        (137, "memory", False, False),
        (0, "output", False, False),
    ],
)
def test_an_end_tells_what_it_was(
    exit_code: int, killed_by: Any, timed_out: bool, success: bool
) -> None:
    """R44: what was killed has not succeeded, whatever it returned."""
    finished = CommandResult(
        exit_code=exit_code,
        stdout=b"",
        stderr=b"",
        killed_by=killed_by,
        backend="bubblewrap",
        duration_seconds=0.1,
    )

    assert (finished.timed_out, finished.success) == (timed_out, success)


def test_options_of_a_definition() -> None:
    """R44: limits and options stand in one table, `true` is the usual ones, and nothing else is
    taken.
    """
    options = SandboxOptions.of({"seconds": 5, "network": True, "readable": ["."]})

    assert options.limits == SandboxLimits(seconds=5)
    assert options.network
    assert options.readable == (Path.cwd(),)
    assert SandboxOptions.of(True) == SandboxOptions()
    assert SandboxOptions.of(options) is options
    for wrong in ({"sceonds": 5}, {"limits": SandboxLimits()}):
        with pytest.raises(UsageError, match="sandbox has no option"):
            SandboxOptions.of(wrong)
