"""Code interpreter: options, results, and the tracebacks that end a run."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    ExistingContainer,
    GeneratedFile,
    NetworkPolicy,
    code_interpreter_tool,
)
from toolcrib.tools.code_interpreter.types import fatal_traceback
from toolcrib.tools.prepared_tool import prepare


def test_the_default_is_a_new_container_with_one_gigabyte() -> None:
    """C13, C14: without options the provider makes a container of the smallest tier."""
    assert CodeInterpreterConfig().container == AutoContainer(memory_limit="1g", file_ids=())


@pytest.mark.parametrize("limit", ["1g", "4g", "16g", "64g"])
def test_the_four_tiers_are_taken(limit: Any) -> None:
    """C14: exactly these."""
    assert AutoContainer(memory_limit=limit).memory_limit == limit
    assert ExistingContainer("cntr_1", memory_limit=limit).memory_limit == limit


@pytest.mark.parametrize("limit", ["2g", "1G", "", "1", 1, None])
def test_other_tiers_are_refused(limit: Any) -> None:
    """C14, C15: before any request is made."""
    with pytest.raises(InvalidTool, match="one of 1g, 4g, 16g, 64g"):
        AutoContainer(memory_limit=limit)


def test_other_tiers_are_refused_for_a_known_container() -> None:
    """C15: also where the tier is only checked and never sent."""
    wrong: Any = "2g"

    with pytest.raises(InvalidTool, match=r"ExistingContainer\.memory_limit"):
        ExistingContainer("cntr_1", memory_limit=wrong)
    assert ExistingContainer("cntr_1").memory_limit is None


@pytest.mark.parametrize("container_id", ["", "  ", None, 5])
def test_a_container_must_be_named(container_id: Any) -> None:
    """C15: a blank or missing id is refused before any request."""
    with pytest.raises(InvalidTool, match=r"ExistingContainer\.id"):
        ExistingContainer(container_id)


@pytest.mark.parametrize("file_ids", [["file_1"], "file_1", ("",), (5,), ("f",) * 51])
def test_unsound_file_ids_are_refused(file_ids: Any) -> None:
    """C13: a tuple of ids, and no more than the provider takes."""
    with pytest.raises(InvalidTool, match=r"AutoContainer\.file_ids"):
        AutoContainer(file_ids=file_ids)


def test_a_network_policy_names_the_domains_in_reach() -> None:
    """No domain means no network; a domain is checked like any other."""
    assert AutoContainer(network_policy=NetworkPolicy()).network_policy == NetworkPolicy(())
    with pytest.raises(InvalidTool, match="allowed_domains"):
        NetworkPolicy(("https://example.org",))
    wrong: Any = {"type": "disabled"}
    with pytest.raises(InvalidTool, match="network_policy"):
        AutoContainer(network_policy=wrong)


def test_a_container_is_one_of_the_two_kinds() -> None:
    """C13: nothing else can say where code runs."""
    wrong: Any = "cntr_1"

    with pytest.raises(InvalidTool, match="AutoContainer or an ExistingContainer"):
        CodeInterpreterConfig(container=wrong)


@pytest.mark.parametrize(
    "made", [AutoContainer(), ExistingContainer("c"), CodeInterpreterConfig(), NetworkPolicy()]
)
def test_options_are_frozen_and_slotted(made: Any) -> None:
    """H2: options cannot change after their check."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, "x")
    assert not hasattr(made, "__dict__")


def test_the_factory_makes_a_tool_without_params() -> None:
    """C16, H41: an empty schema, and a description that says who writes the code."""
    tool = code_interpreter_tool()

    assert (tool.kind, tool.name) == ("code_interpreter", "code_interpreter")
    assert "Python" in tool.description
    assert "model writes" in tool.description
    assert prepare(tool).declaration.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_the_factory_takes_config_and_name() -> None:
    """H41: the same recipe as for web search."""
    config = CodeInterpreterConfig(ExistingContainer("cntr_1"))

    assert code_interpreter_tool(config, name="python").config == config


def test_a_result_may_know_little() -> None:
    """C24: providers that give no stderr or exit code leave them unknown, not empty."""
    result = CodeInterpreterResult(code="print(1)", stdout="1\n")

    assert (result.stderr, result.exit_code, result.is_inferred) == (None, None, False)


def test_a_result_names_its_files() -> None:
    """C29: container, file and name, enough to fetch the file."""
    made = GeneratedFile("cntr_1", "cfile_1", "plot.png")

    assert CodeInterpreterResult(files=(made,)).files[0].file_id == "cfile_1"


def test_a_result_renders_what_was_printed() -> None:
    """C17: the text of the run; a traceback that is already in it is not repeated."""
    assert CodeInterpreterResult(stdout="1").render() == "1"
    assert CodeInterpreterResult(stdout="1", stderr="warning").render() == "1\nwarning"
    assert CodeInterpreterResult(stdout="1 boom", stderr="boom", is_inferred=True).render() == (
        "1 boom"
    )


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
