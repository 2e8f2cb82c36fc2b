"""The page on the command line knows every command, option, status and variable."""

import re
from pathlib import Path

import pytest

from tests.cli.test_help import LEAVES
from toolcrib.cli.app import COMMANDS
from toolcrib.cli.output import Exit
from toolcrib.cli.service import TOKEN_VARIABLE, URL_VARIABLE

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
ELSEWHERE = {"acp", "mcp"}
"""Commands with a page of their own."""


SAME = {"dev": "serve", "worker": "serve"}
"""Commands whose section sends the reader to that of another for the options of both."""


def section(name: str) -> str:
    """What the page says of a command."""
    found = re.search(rf"^### `toolcrib {name}`\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"docs/cli.md has no section on toolcrib {name}"
    return found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section(name: str) -> None:
    """In the order of the help."""
    assert section(name).strip()


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - ELSEWHERE))
def test_every_option_is_on_the_page(name: str) -> None:
    """A reader finds each option where the command is told of."""
    shown = section(name.split()[0])
    if name in SAME:
        assert f"[`{SAME[name]}`](#toolcrib-{SAME[name]})" in shown
        shown += section(SAME[name])
    options = {
        option
        for each in LEAVES[name].params
        if not getattr(each, "hidden", False)
        for option in (*each.opts, *each.secondary_opts)
        if option.startswith("-")
    }

    assert {option for option in options if option not in shown} == set()
    assert f"toolcrib {name}" in shown or name in COMMANDS


@pytest.mark.parametrize("status", list(Exit))
def test_every_status_is_on_the_page(status: Exit) -> None:
    """With its number and its name."""
    assert f"| {status.value} | {status.name.lower()} |" in PAGE


def test_the_variables_are_on_the_page() -> None:
    """What the environment can say."""
    for name in (TOKEN_VARIABLE, URL_VARIABLE, "NO_COLOR", "XDG_STATE_HOME"):
        assert f"`{name}`" in PAGE
