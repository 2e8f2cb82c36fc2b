"""What the output of Python code tells about its end."""

import subprocess
import sys

import pytest

from toolcrib.tools.code_interpreter.types import fatal_traceback

SCRIPT = (
    "Traceback (most recent call last):\n"
    '  File "main.py", line 1, in <module>\n'
    "    1 / 0\n"
    "    ~~^~~\n"
    "ZeroDivisionError: division by zero"
)
NOTEBOOK = (
    "KeyError                                  Traceback (most recent call last)\n"
    "Cell In[3], line 1\n"
    "----> 1 table['x']\n"
    "\n"
    "KeyError: 'x'"
)
RULE = "-" * 75


def output_of(code: str) -> str:
    """What real Python prints, both streams in one text."""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def test_a_traceback_at_the_end_is_fatal() -> None:
    """C24: what was printed before it is not part of it."""
    assert fatal_traceback(f"rows: 3\n{SCRIPT}\n\n") == SCRIPT


def test_a_notebooks_traceback_is_fatal() -> None:
    """C24: the interpreter is a notebook and reports as one, in colours or without."""
    coloured = NOTEBOOK.replace("KeyError", "\x1b[0;31mKeyError\x1b[0m")

    assert fatal_traceback(f"rows: 3\n{RULE}\n{NOTEBOOK}") == NOTEBOOK
    assert fatal_traceback(f"{RULE}\n{coloured}") == NOTEBOOK


def test_a_notebooks_message_may_have_many_lines() -> None:
    """C24: only the notebook draws the rule, and after that nothing else is printed."""
    report = f"{NOTEBOOK}\n\nfirst line\n  second line"

    assert fatal_traceback(f"{RULE}\n{report}") == report


def test_what_follows_a_caught_exception_shows_that_it_was_caught() -> None:
    """C24: success is doubted only when the output ends in the traceback."""
    assert fatal_traceback(f"{SCRIPT}\ntrying again\ndone\n") is None


def test_of_several_tracebacks_the_last_decides() -> None:
    """C24: an exception raised while another was handled comes last."""
    chained = f"{SCRIPT}\n\nDuring handling of the above exception, another one occurred:\n\n"

    assert fatal_traceback(chained + SCRIPT) == SCRIPT


@pytest.mark.parametrize(
    "report",
    [
        '  File "main.py", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax',
        "  Cell In[1], line 2\n    y = 2\n    ^\nIndentationError: unexpected indent",
    ],
)
def test_code_that_cannot_be_read_has_failed(report: str) -> None:
    """C24: there is no traceback where nothing ran."""
    assert fatal_traceback(report) == report


@pytest.mark.parametrize(
    "output",
    [
        "",
        "\n",
        "42",
        "Error: 0.25",
        "SyntaxError: this line only talks about one",
        "Traceback (most recent call last):",
        "see Traceback (most recent call last): it says\nValueError: x",
        f"{RULE}\nname    score\n{RULE}\nann     3",
        f"the report reads:\n{NOTEBOOK}",
    ],
)
def test_other_output_says_nothing_of_a_failure(output: str) -> None:
    """C24: nothing is inferred without a whole traceback."""
    assert fatal_traceback(output) is None


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("print('a'); 1/0", "ZeroDivisionError: division by zero"),
        ("def f(): raise KeyError('x')\nf()", "KeyError: 'x'"),
        ("class Odd(Exception): pass\nraise Odd", "Odd"),
        ("def f():\n class E(Exception): pass\n raise E('m')\nf()", "f.<locals>.E: m"),
        ("try: 1/0\nexcept Exception: raise ValueError('b')", "ValueError: b"),
        ("x = = 1", "SyntaxError: invalid syntax"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_real_failures_are_recognised(code: str, ending: str) -> None:
    """C24: against what this Python really prints."""
    found = fatal_traceback(output_of(code))

    assert found is not None
    assert found.splitlines()[-1].endswith(ending)


@pytest.mark.parametrize(
    "code",
    [
        "print('fine')",
        "import traceback\ntry: 1/0\nexcept Exception: traceback.print_exc()\nprint('went on')",
    ],
)
def test_real_successes_are_left_alone(code: str) -> None:
    """C24: against what this Python really prints."""
    assert fatal_traceback(output_of(f"import sys; sys.stderr = sys.stdout\n{code}")) is None
