"""`toolcrib inspect`: a form at a real terminal, through the real gate."""

import sys
from pathlib import Path

import pytest

from tests.cli.command import AtTerminal, at_terminal, invoke
from toolcrib.cli.form import ArgumentForm, kind_of

pytestmark = [pytest.mark.usefixtures("folder"), pytest.mark.slow]

TOOLS = '''
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from toolcrib import tool


class Address(BaseModel):
    street: str
    zip: int


@tool
def send(
    text: str,
    copies: Annotated[int, Field(ge=1, le=9)] = 1,
    colour: Literal["red", "blue"] = "red",
    to: Address | None = None,
    urgent: bool = False,
) -> str:
    """Send a letter.

    Args:
        text: What it says.
        copies: How many.
        colour: Of the paper.
        to: Where to.
        urgent: Whether it hurries.
    """
    return f"{text}/{copies}/{colour}/{to and to.zip}/{urgent}"


@tool
def odd(number: int) -> str:
    """Take odd numbers.

    Args:
        number: An odd number.
    """
    return f"{number} is odd"


@tool
def sign_in(password: SecretStr) -> str:
    """Sign in.

    Args:
        password: Your password.
    """
    return f"{len(password.get_secret_value())} letters"


@tool(requires_approval=True)
def wipe() -> str:
    """Wipe everything."""
    return "wiped"
'''
SERVER = '''
import asyncio
from mcp.server.mcpserver import MCPServer

server = MCPServer("foreign")


@server.tool()
def reverse(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


server.run()
'''
MODULE = ("--host-tools-module", "letter_tools")


@pytest.fixture(autouse=True)
def letter_tools(folder: Path) -> None:
    """Tools with all kinds of arguments."""
    (folder / "letter_tools.py").write_text(TOOLS, "utf-8")


async def type_each(started: AtTerminal, *lines: str) -> str:
    """Wait for each prompt and type a line at it; return all that was seen."""
    seen = ""
    for line in lines:
        seen += await started.see("> ")
        started.terminal.type(f"{line}\n")
    return seen


async def test_a_form_has_a_field_for_each_argument(folder: Path) -> None:
    """Type, default and description of each; nested ones as JSON; Enter leaves an optional one to
    its default; the result, and the command that does the same.
    """
    with at_terminal("inspect", "send", *MODULE, cwd=folder) as started:
        seen = await type_each(started, "hi", "3", "blue", '{"street": "a", "zip": 5}', "")
        seen += await started.see("Enter: again")
        started.terminal.type("q\n")
        assert await started.exit_code() == 0

    for text in (
        "text: text, needed",
        "copies: whole number from 1 to 9, else 1",
        "colour: one of red, blue, else red",
        "to: JSON object with street, zip or null",
        "urgent: true or false, else false",
        "How many.",
        """toolcrib tools call send text=hi copies=3 colour=blue 'to={"street": "a", "zip": 5}'""",
        "hi/3/blue/5/False",
    ):
        assert text in seen, seen


async def test_a_fault_is_told_in_place_and_nothing_is_lost(folder: Path) -> None:
    """A wrong value is asked for again with what was typed; the others stay, also for the next
    run.
    """
    with at_terminal("inspect", "send", *MODULE, cwd=folder) as started:
        seen = await type_each(started, "", "hi", "12", "2", "green", "blue", '{"zip": 1}', "-", "")
        assert "it is needed; type a value" in seen
        assert "greater than the maximum of 9" in seen
        assert "[12] > " in seen
        assert "is not one of" in seen
        assert '"street" is a required property' in seen
        assert "hi/2/blue/None/False" in await started.see("Enter: again")
        again = await type_each(started, "", "", "4", "", "", "")
        assert "[hi] > " in again
        assert "hi/4/blue/None/False" in await started.see("Enter: again")
        started.terminal.type("q\n")
        assert await started.exit_code() == 0


@pytest.mark.parametrize("columns", [60, 80, 120])
async def test_it_fits_the_terminal(folder: Path, columns: int) -> None:
    """The list, the form, faults and the result stay within the width, in whole words."""
    with at_terminal("inspect", *MODULE, cwd=folder, columns=columns) as started:
        seen = await type_each(started, "1", "hi", "12", "2", "blue", "", "")
        seen += await started.see("Enter: again, t: another tool, q: end > ")
        started.terminal.type("q\n")
        assert await started.exit_code() == 0

    lines = seen.replace("\r", "").split("\n")
    assert [line for line in lines if len(line) > columns] == []
    assert "hi/2/blue/None/False" in lines
    assert "colour: one of red, blue, else red" in lines


async def test_a_tool_is_chosen_by_number_or_name(folder: Path) -> None:
    """A name that is misspelt is answered with the one that was meant; `t` goes back."""
    with at_terminal("inspect", *MODULE, cwd=folder) as started:
        seen = await type_each(started, "od")
        assert "2  odd: Take odd numbers." in seen
        await started.see("did you mean 'odd'?")
        await type_each(started, "2", "seven", "7")
        assert "7 is odd" in await started.see("Enter: again")
        await type_each(started, "t", "odd", "", "q")
        assert await started.exit_code() == 0


async def test_a_secret_is_not_shown(folder: Path) -> None:
    """Neither while it is typed nor in a command to copy."""
    with at_terminal("inspect", "sign_in", *MODULE, cwd=folder) as started:
        seen = await type_each(started, "hush")
        seen += await started.see("Enter: again")
        started.terminal.type("q\n")
        assert await started.exit_code() == 0

    assert "4 letters" in seen
    assert "hush" not in seen
    assert "tools call" not in seen


async def test_calls_go_through_the_gate(folder: Path) -> None:
    """What needs approval asks, and a denial is told."""
    with at_terminal("inspect", "wipe", *MODULE, cwd=folder) as started:
        await started.answer("d", "not today")
        seen = await started.see("Enter: again")
        assert "denied" in seen
        assert "wiped" not in seen
        started.terminal.type(chr(4))
        assert await started.exit_code() == 0


async def test_a_foreign_server_needs_no_file(folder: Path) -> None:
    """Newcomers B: `--mcp COMMAND` has the server's tools by their own names, behind the gate."""
    (folder / "foreign.py").write_text(SERVER, "utf-8")
    command = f"{sys.executable} {folder / 'foreign.py'}"
    with at_terminal("inspect", "reverse", "--mcp", command, cwd=folder) as started:
        await type_each(started, "abc", "a")
        assert "cba" in await started.see("Enter: again")
        started.terminal.type("q\n")
        assert await started.exit_code() == 0


def test_a_foreign_server_is_listed_and_called_in_a_script(folder: Path) -> None:
    """Newcomers B: `tools list` and `tools call` take the server, too; the project of the folder
    does not apply, and other tools are refused.
    """
    (folder / "foreign.py").write_text(SERVER, "utf-8")
    (folder / "toolcrib.yaml").write_text("tools: {modules: [letter_tools]}\n", "utf-8")
    server = ("--mcp", f"{sys.executable} {folder / 'foreign.py'}")

    listed = invoke("tools", "list", *server)
    called = invoke("tools", "call", "reverse", "text=abc", *server)
    both = invoke("tools", "list", *server, "--mcp-url", "http://127.0.0.1:1/mcp")

    assert listed.stdout.split()[0] == "reverse"
    assert called.exit_code == 4
    assert "reverse waits for approval" in called.stderr
    assert both.exit_code == 2


def test_without_a_terminal_it_names_the_command_to_use() -> None:
    """Nothing asks a question where nobody can answer."""
    done = invoke("inspect", "odd", *MODULE)

    assert done.exit_code == 2
    assert "toolcrib tools call odd KEY=VALUE" in done.stderr


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": ["integer", "null"]}, "whole number or null"),
        ({"enum": ["a", 1]}, "one of a, 1"),
        ({"const": 5}, "5"),
        ({"type": "array"}, "JSON list"),
        ({}, "JSON"),
    ],
)
def test_kinds_in_words(schema: dict[str, object], words: str) -> None:
    """What people type, not what JSON Schema calls it."""
    assert kind_of(schema) == words


def test_a_schema_that_names_itself_ends() -> None:
    """A foreign server's schema cannot keep the form busy."""
    loop = {"$ref": "#/$defs/loop"}
    form = ArgumentForm({"properties": {"a": loop}, "$defs": {"loop": {"anyOf": [loop]}}})

    assert [each.name for each in form.fields()] == ["a"]


def test_a_schema_that_is_none_takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a foreign server wrongly declares does not end the form."""

    def type_x(prompt: str) -> str:
        return "x"

    monkeypatch.setattr("toolcrib.cli.form.read_line", type_x)
    form = ArgumentForm({"properties": {"a": {"type": "string", "pattern": "("}}})

    form.fill()

    assert form.arguments() == {"a": "x"}


def test_a_schema_without_properties_takes_one_object() -> None:
    """Any arguments, typed as JSON."""
    form = ArgumentForm({"type": "object"}, {"": '{"a": 1}'})

    assert form.arguments() == {"a": 1}
    assert form.words() == ["--arguments", '{"a": 1}']
