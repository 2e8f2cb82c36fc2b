"""Child processes in tests: no output is lost, whatever pieces it comes in."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.child_process import child_process

pytestmark = pytest.mark.wire

ROOT = Path(__file__).parents[2]


def test_lines_of_one_chunk_are_all_kept() -> None:
    """A line that came with the one before it is read next, and is in the whole text."""
    with child_process([sys.executable, "-c", "print('one\\ntwo\\nthree')"]) as process:
        assert process.stdout.next_line() == "one\n"
        assert process.wait() == 0

    assert process.stdout.next_line(containing="th") == "three\n"
    assert process.stdout.text == "one\ntwo\nthree\n"
    assert process.stderr.text == ""


def test_a_line_that_is_never_written_is_an_error() -> None:
    """The error says what was written instead."""
    with (
        child_process([sys.executable, "-c", "print('one')"]) as process,
        pytest.raises(AssertionError, match=r"no line with 'two' was written: 'one\\n'"),
    ):
        process.stdout.next_line(containing="two")


def test_a_process_that_still_runs_is_killed() -> None:
    """Leaving the block does not wait for it, and nothing stays behind."""
    endless = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)"
    with child_process([sys.executable, "-c", endless]) as process:
        process.stdout.next_line()

    assert process.process.returncode == -signal.SIGKILL


def test_the_tests_pass_in_a_background_job() -> None:
    """There SIGINT is ignored and children inherit that; the processes of tests hear it anyway."""
    ctrl_c = "tests/cli/test_tools.py::TestCalling::test_ctrl_c_stops_the_call"
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "pytest", "-q", ctrl_c],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
