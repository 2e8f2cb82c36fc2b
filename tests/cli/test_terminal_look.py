"""Commands at real terminals of 60, 80 and 120 columns: whole words, whole names, live progress."""

import re
import sys
from pathlib import Path

import pytest

from tests.cli.command import at_terminal, program_at_terminal, run, serving
from tests.helpers.screen import WIDTHS, past_the_edge, screen_lines

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("folder")]

MOUNTED = '''
import asyncio
from pathlib import Path

from toolcrib import ToolContext, tool


def mounted(number: int):
    @tool(name=f"files_read_{number}", requires_approval=number % 3 == 0)
    def read(path: str) -> str:
        """Read the complete contents of a file from the file system, in any encoding.

        Args:
            path: Where the file is, from the root of the server that was mounted for this project.
        """
        return path

    return read


@tool
async def dig(*, ctx: ToolContext) -> str:
    """Dig a hole, slowly."""
    ctx.output("first spade\\n")
    ctx.progress(1, 4, "metres of a hole that is deep enough for whatever has to go into it")
    while not Path("enough").exists():
        await asyncio.sleep(0.01)
    ctx.output("last spade")
    return "dug"


TOOLS = [*(mounted(number) for number in range(35)), dig]
'''
MODULE = ("--host-tools-module", "cli_tools")
MANY = ("--host-tools-module", "mounted_tools")


@pytest.fixture(autouse=True)
def _mounted(folder: Path) -> None:
    (folder / "mounted_tools.py").write_text(MOUNTED, "utf-8")


@pytest.mark.parametrize("columns", WIDTHS)
async def test_many_tools_are_a_table(folder: Path, columns: int) -> None:
    """Looks: 36 tools with a header, a line or two each, whole names, and who asks."""
    with at_terminal("tools", "list", *MANY, cwd=folder, columns=columns) as command:
        shown = await command.rest()
    lines = screen_lines(shown)

    assert past_the_edge(shown, columns) == []
    assert lines[0].split() == ["name", "source", "approval", "description"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert len(rows) == 36
    assert rows["files_read_3"][:2] == ["host", "asks"]
    assert rows["files_read_4"][:2] == ["host", "no"]
    known = re.findall(r"\w+", MOUNTED)
    cut = [line.split()[-1].rstrip("…") for line in lines if "files_read" in line]
    assert {word for word in cut if word} <= {*known, "encoding."}


@pytest.mark.parametrize("columns", WIDTHS)
async def test_names_are_whole_where_little_room_is_left(folder: Path, columns: int) -> None:
    """A name is what people copy, so that the description gives way, to a line of its own."""
    name = "a_tool_with_a_name_that_is_as_long_as_mounted_ones_are"
    text = MOUNTED.replace("TOOLS = [", f"TOOLS = [tool(name={name!r})(len_),").replace(
        "@tool\nasync",
        'def len_(text: str) -> int:\n    """Count."""\n    return 1\n\n\n@tool\nasync',
    )
    (folder / "mounted_tools.py").write_text(text, "utf-8")
    with at_terminal("tools", "list", *MANY, cwd=folder, columns=columns) as command:
        shown = await command.rest()

    assert name in shown
    assert past_the_edge(shown, columns) == []
    assert "Count." in shown


@pytest.mark.parametrize("columns", WIDTHS)
async def test_one_tool_is_a_page(folder: Path, columns: int) -> None:
    """What it does, what it takes in words, and the schema."""
    command = ("tools", "show", "files_read_3", *MANY)
    with at_terminal(*command, cwd=folder, columns=columns) as shown_command:
        shown = await shown_command.rest()
    words = " ".join("\n".join(screen_lines(shown)).split())

    assert "path: string; Where the file is, from the root of the server that was mounted" in words
    assert "requires approval: yes" in words
    text = shown.split("schema:")[0]
    assert past_the_edge(text, columns) == []


@pytest.mark.parametrize("columns", WIDTHS)
async def test_a_call_shows_its_progress_and_its_output(folder: Path, columns: int) -> None:
    """Looks: progress on one line that is written over, output above it, the result at the end."""
    with at_terminal("tools", "call", "dig", *MANY, cwd=folder, columns=columns) as command:
        before = await command.see("1 of 4")
        assert "first spade" in before
        assert not (folder / "enough").exists()
        (folder / "enough").write_text("")
        shown = before + await command.rest()
        assert await command.exit_code() == 0

    assert past_the_edge(shown, columns) == []
    assert screen_lines(shown)[-3:] == ["first spade", "last spade", "dug"]
    assert "#####..............." in shown


async def test_a_call_on_a_server_shows_the_same(folder: Path) -> None:
    """The events of the server's session come over the wire while the call runs there."""
    async with serving(*MANY, cwd=folder) as served:
        where = ("--url", served.url, "--token-file", "token")
        with at_terminal("tools", "call", "dig", *where, cwd=folder, columns=80) as command:
            before = await command.see("1 of 4")
            (folder / "enough").write_text("")
            shown = before + await command.rest()
            assert await command.exit_code() == 0

    assert screen_lines(shown)[-3:] == ["first spade", "last spade", "dug"]
    assert past_the_edge(shown, 80) == []


def test_progress_is_for_terminals(folder: Path) -> None:
    """In a pipe there is the result, and nothing that moves a cursor."""
    (folder / "enough").write_text("")
    called = run("tools", "call", "dig", *MANY, cwd=folder)

    assert (called.stdout, called.stderr, called.returncode) == ("dug\n", "", 0)


async def test_the_question_and_the_progress_share_the_terminal(folder: Path) -> None:
    """A call that is asked about shows no progress until it runs."""
    with at_terminal(
        "tools", "call", "shout", "text=hi", *MODULE, cwd=folder, columns=60
    ) as command:
        before = await command.see()
        assert "shout runs" not in before
        command.terminal.type("a\n")
        shown = before + await command.rest()
        assert await command.exit_code() == 0

    assert past_the_edge(shown, 60) == []
    assert screen_lines(shown)[-1] == "HI"


@pytest.mark.parametrize("columns", WIDTHS)
async def test_denied_waiting_and_failed_look_different(folder: Path, columns: int) -> None:
    """Looks: each has its word, which is enough without colour, and each its colour."""
    ends = {}
    for name, arguments in {
        "denied": ("shout", "text=hi", "--approve", "deny"),
        "waits": ("shout", "text=hi", "--approve", "policy", "--store", "crib.sqlite3"),
        "failed": ("add", "a=one", "b=2"),
    }.items():
        command = ("tools", "call", *arguments, *MODULE)
        with at_terminal(*command, cwd=folder, columns=columns, NO_COLOR="") as called:
            shown = await called.rest()
            ends[name] = await called.exit_code()
        assert past_the_edge(shown, columns) == []
        assert f"{arguments[0]} {name}" in "\n".join(screen_lines(shown))
        colour = {"denied": "\x1b[1;33m", "waits": "\x1b[33m", "failed": "\x1b[31m"}[name]
        assert set(re.findall(r"\x1b\[[0-9;]+m", shown)) - {"\x1b[0m", "\x1b[2m"} == {colour}
    assert ends == {"denied": 3, "waits": 4, "failed": 1}


@pytest.mark.parametrize("columns", WIDTHS)
async def test_sessions_and_what_waits_in_them_fit(folder: Path, columns: int) -> None:
    """Looks: a table of sessions with whole ids, and a page about one, as wide as the terminal."""
    store = ("--store", "crib.sqlite3")
    run("tools", "call", "shout", "text=hi", *MODULE, *store, "--session", "s", cwd=folder)
    run("tools", "call", "shout", "text=hi", *MODULE, *store, cwd=folder)
    with at_terminal("sessions", "list", *store, cwd=folder, columns=columns) as command:
        shown = await command.rest()
    header, row = screen_lines(shown)
    assert header.split() == ["session", "state", "owner", "created", "records", "waits"]
    assert row.split()[-1] == "1"
    with at_terminal(
        "sessions", "show", row.split()[0], *store, cwd=folder, columns=columns
    ) as command:
        page = await command.rest()
    assert "waiting" in page
    assert past_the_edge(shown, columns) == past_the_edge(page, columns) == []


@pytest.mark.parametrize("columns", WIDTHS)
async def test_a_matrix_that_does_not_fit_is_a_list(folder: Path, columns: int) -> None:
    """No name of a kind or an option is cut for want of room."""
    with at_terminal("support", cwd=folder, columns=columns) as command:
        shown = await command.rest()
    assert past_the_edge(shown, columns) == []
    assert "…" not in shown
    assert "web_search: openai" in shown


@pytest.mark.parametrize("columns", WIDTHS)
async def test_a_run_says_denied_and_breaks_at_words(folder: Path, columns: int) -> None:
    """Looks: a call that a person denied says so, not `-> not today`."""
    with at_terminal(
        "run", "2+3?", "--adapter", "cli_model:adapter", *MODULE, cwd=folder, columns=columns
    ) as command:
        seen = await command.see()
        command.terminal.type("d\n")
        seen += await command.see()
        command.terminal.type("not today, and not on any other day of this very long year\n")
        shown = seen + await command.rest()
        assert await command.exit_code() == 0
    words = " ".join("\n".join(screen_lines(shown)).split())
    assert 'shout {"text": "five"} denied: not today, and not on any other day' in words
    assert past_the_edge(shown, columns) == []


@pytest.mark.parametrize("columns", WIDTHS)
async def test_the_download_of_a_model_fits(folder: Path, columns: int) -> None:
    """How much has come and how long it takes are whole; where it comes from gives way."""
    program = (
        "from toolcrib.cli.model import _progress\n"
        "from toolcrib.embedded.model_files import DEFAULT\n"
        "with _progress(DEFAULT) as report:\n"
        "    report(DEFAULT.bytes // 2, 'the package index, part 3 of 12, and a mirror of it')\n"
    )
    with program_at_terminal(sys.executable, "-c", program, cwd=folder, columns=columns) as command:
        shown = await command.rest()
        assert await command.exit_code() == 0

    assert past_the_edge(shown, columns) == []
    assert "0.6/1.1 GB" in shown
