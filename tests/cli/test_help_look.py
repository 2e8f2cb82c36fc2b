"""`--help` at real terminals: whole names, lines that end at words, options in sections."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import at_terminal, invoke
from tests.cli.test_help import LEAVES
from tests.helpers.screen import WIDTHS, past_the_edge, screen_lines
from toolcrib.cli.app import COMMANDS
from toolcrib.cli.help import SECTIONS

GROUPS = sorted({name.split()[0] for name in LEAVES if " " in name})
HEADING = re.compile(r"^[A-Z][a-z].*:$")


def page(name: str, width: int) -> str:
    """The help of a command for a terminal of that width."""
    done = invoke(*name.split(), "--help", env={"COLUMNS": str(width)})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted({*LEAVES, *GROUPS, ""}))
def test_no_line_runs_past_the_edge(name: str, width: int) -> None:
    """Looks: names are whole, words are whole, and every line fits."""
    shown = page(name, width)

    assert [line for line in shown.split("\n") if len(line) > width] == []
    assert "…" not in shown
    assert set(shown.split()) <= set(page(name, 1_000).split()) | {"\\"}


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_every_option_is_named_whole(name: str) -> None:
    """Looks: `--host-tools-modu…` is no name."""
    shown = page(name, 60)
    options = [
        option
        for each in LEAVES[name].params
        if not each.hidden
        for option in (*each.opts, *each.secondary_opts)
        if option.startswith("-")
    ]

    assert [option for option in options if not re.search(rf"{option}\b", shown)] == []


@pytest.mark.parametrize("name", sorted({*LEAVES, *GROUPS, ""}))
def test_a_flag_has_no_value(name: str) -> None:
    """Looks: a flag does not say `<bool>`, and no value is named by a Python type."""
    assert not re.search(r"<\w+>", page(name, 80))


@pytest.mark.parametrize("name", sorted({*LEAVES, *GROUPS}))
def test_completion_is_an_option_of_the_whole_command(name: str) -> None:
    """Looks: `audit --help` does not repeat what `toolcrib --help` says."""
    assert "completion" not in page(name, 80)
    assert "--install-completion" in page("", 80)


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_descriptions_have_room(name: str) -> None:
    """Looks: at 60 columns a description has at least 25 of them."""
    lines = page(name, 60).split("\n")
    described = [line for line in lines if re.match(r"^  -\S.*\S  +\S", line)]

    assert described
    for line in described:
        before = re.match(r"^  \S+(?: \S+)*  +", line)
        assert before
        assert 60 - before.end() >= 25


def test_many_options_are_in_sections() -> None:
    """Looks: forty options of `serve` are not one list."""
    headings = [line for line in page("serve", 80).split("\n") if HEADING.match(line)]

    assert {"Tools:", "Address:", "Who may use it:", "Notifications:"} <= set(headings)
    assert "default: True" not in page("serve", 80)
    assert "Server:\n  --url URL" in page("tools call", 80)
    assert "Address:" not in page("approvals list", 80)


def test_every_section_holds_options_that_exist() -> None:
    """An option that was renamed leaves no name behind in the table."""
    names = {each.name for command in LEAVES.values() for each in command.params}

    assert {name for listed in SECTIONS.values() for name in listed} - names == set()


@pytest.mark.parametrize("width", WIDTHS)
def test_an_example_can_be_copied(width: int) -> None:
    """What is too long is broken as a shell reads it back."""
    command = page("approvals approve", width).split("Example:\n")[1].split("\n\n")[0]
    example = " ".join(LEAVES["approvals approve"].help.split("Example: ")[1].split())

    assert shlex.split(command.replace("\\\n", " ")) == shlex.split(example)


@pytest.mark.wire
@pytest.mark.parametrize("columns", WIDTHS)
async def test_at_a_real_terminal(columns: int, tmp_path: Path) -> None:
    """The width is that of the terminal."""
    with at_terminal("serve", "--help", cwd=tmp_path, columns=columns) as command:
        shown = await command.rest()

    assert past_the_edge(shown, columns) == []
    lengths = [len(line) for line in screen_lines(shown)]
    assert max(lengths) > min(columns, 100) - 12


@pytest.mark.wire
@pytest.mark.parametrize("columns", WIDTHS)
async def test_a_wrong_option_is_told_in_whole_words(columns: int, tmp_path: Path) -> None:
    """A fault of the command line breaks at words, too, and the status is that of wrong use."""
    arguments = ("tools", "list", "--no-such-option-as-this-one-that-is-really-long")
    with at_terminal(*arguments, cwd=tmp_path, columns=columns) as command:
        shown = await command.rest()
        assert await command.exit_code() == 2

    assert past_the_edge(shown, columns) == []
    assert "No such option" in " ".join(shown.split())


def test_a_fault_of_an_application_is_told_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of Typer's without a usage line has its message and its status."""
    import typer

    def broken() -> None:
        raise typer.TyperException("it broke")

    monkeypatch.setitem(COMMANDS, "doctor", f"{__name__}:broken")
    monkeypatch.setattr("tests.cli.test_help_look.broken", broken, raising=False)
    done = invoke("doctor")

    assert (done.exit_code, done.stderr) == (1, "Error: it broke\n")


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        (("tools", "list", "--debug"), "toolcrib --debug tools list ..."),
        (("tools", "list", "--project", "x"), "toolcrib --project FILE tools list ..."),
    ],
)
def test_an_option_of_the_whole_command_is_told_its_place(
    arguments: tuple[str, ...], right: str
) -> None:
    """`--debug` after the command is no riddle: the message has the line that works."""
    done = invoke(*arguments)

    assert done.exit_code == 2
    assert f"it stands before the command: {right}" in done.stderr


def test_a_wrong_choice_is_told_which_one_was_meant() -> None:
    """The choices in the user's words, without the schema library's, and the nearest of them."""
    done = invoke("serve", "--log-format", "jsn")

    assert done.exit_code == 2
    assert "'jsn' is not one of text, json; did you mean json?" in done.stderr
    assert "Value error" not in done.stderr
