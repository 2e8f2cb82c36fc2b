"""Commands start fast, because they import little. Modules are counted here, not times; `make bench
startup` holds the times to their bounds.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.command import invoke
from tests.cli.test_help import LEAVES
from tests.store.facts import request, write
from toolcrib.cli.app import COMMANDS, SUMMARIES, app
from toolcrib.store import SqliteStore
from toolcrib.store.store import ApprovalFiled

pytestmark = pytest.mark.wire

HEAVY = {
    "asyncio",
    "http.client",
    "jsonschema_rs",
    "logging",
    "mcp",
    "openai",
    "pydantic",
    "pydantic_core",
    "rich",
    "sqlite3",
    "ssl",
    "starlette",
    "yaml",
}
"""Modules that take milliseconds to import, each of them."""
MOST_OWN = 36
"""How many modules of the package the help of a command may import."""
MOST_OWN_LISTED = 50
"""The same for a list of tools or of requests."""
MOST_OWN_OF_A_PROJECT = 64
"""The same in a project, whose file and policy are read."""
DESK = '''
from toolcrib import tool


@tool(is_read_only=True)
def stock_level(part: str, places: list[str] | None = None) -> int:
    """How many pieces there are."""
    return 3
'''
HELPS = sorted({(), *((name,) for name in COMMANDS), *(tuple(leaf.split()) for leaf in LEAVES)})

# One interpreter that has imported the command line, and a child of it for each command.
SERIES = """
import json, os, sys
from toolcrib.cli import main

def report(status):
    os.write(writer, json.dumps([status or 0, sorted(sys.modules)]).encode())
    leave(0)

leave, os._exit = os._exit, report
for line in sys.stdin:
    reader, writer = os.pipe()
    if not os.fork():
        sys.argv = ["toolcrib", *json.loads(line)]
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        try:
            main()
        except SystemExit as end:
            report(end.code)
        leave(0)
    os.close(writer)
    with open(reader, "rb") as report:
        print(report.read().decode() or "null", flush=True)
"""


def loaded_by(commands: list[tuple[str, ...]], folder: Path) -> list[set[str]]:
    """The modules that are loaded when each command has ended, all of them with status 0."""
    # Measured processes load the coverage tool, and that loads modules of its own.
    unmeasured = {key: text for key, text in os.environ.items() if not key.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", SERIES],
        input="".join(f"{json.dumps(command)}\n" for command in commands),
        capture_output=True,
        text=True,
        check=True,
        env=unmeasured,
        cwd=folder,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [report and report[0] for report in reports] == [0] * len(commands), done.stderr
    return [set(modules) for _, modules in reports]


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, ...], set[str]]:
    """What the help of each command loads."""
    commands = [(*words, "--help") for words in HELPS]
    return dict(zip(HELPS, loaded_by(commands, tmp_path_factory.mktemp("empty")), strict=True))


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("toolcrib")}


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_imports_nothing_heavy(
    words: tuple[str, ...], helps: Mapping[tuple[str, ...], set[str]]
) -> None:
    """Help needs no schemas, no event loop, no database and no colours."""
    assert helps[words] & HEAVY == set()
    assert len(own(helps[words])) <= MOST_OWN


def test_the_list_of_commands_imports_none_of_them(
    helps: Mapping[tuple[str, ...], set[str]],
) -> None:
    """A new command makes `toolcrib --help` no slower."""
    assert own(helps[()]) & {place.partition(":")[0] for place in COMMANDS.values()} == set()


def test_listing_the_tools_of_a_module_needs_no_runtime(tmp_path: Path) -> None:
    """Names, rules and descriptions of `@tool` functions are there without any schema."""
    (tmp_path / "desk.py").write_text(DESK)
    [modules] = loaded_by([("tools", "list", "--host-tools-module", "desk")], tmp_path)

    assert modules & HEAVY == set()
    assert len(own(modules)) <= MOST_OWN_LISTED


def test_listing_what_waits_needs_no_store(sqlite_path: Path) -> None:
    """One query of the file tells the pending requests."""
    with SqliteStore(sqlite_path) as store:
        write(store, store.acquire("s"), 1, [ApprovalFiled(request("a1"))])
    command = ("approvals", "list", "--store", str(sqlite_path))
    [modules] = loaded_by([command], sqlite_path.parent)

    assert modules & HEAVY == {"sqlite3"}
    assert len(own(modules)) <= MOST_OWN_LISTED


def test_the_lists_of_a_new_project_need_no_runtime(tmp_path: Path) -> None:
    """What `toolcrib init` writes is listed as fast, with its project file, policy and store."""
    folder = tmp_path / "shop"
    assert invoke("init", folder).exit_code == 0
    with SqliteStore(folder / "crib.sqlite3") as store:
        write(store, store.acquire("s"), 1, [ApprovalFiled(request("a1"))])
    tools, approvals = loaded_by([("tools", "list"), ("approvals", "list")], folder)

    assert tools & HEAVY == {"yaml"}
    assert approvals & HEAVY == {"sqlite3", "yaml"}
    assert len(own(tools)) <= MOST_OWN_OF_A_PROJECT
    assert len(own(approvals)) <= MOST_OWN_OF_A_PROJECT


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    """The summaries of the table are the first sentences of the commands' own help."""
    group: Any = typer.main.get_command(app)
    command: Any = group.get_command(None, name)
    first = " ".join(command.help.split("\n\n")[0].split())
    sentence, stop, _ = first.partition(". ")

    assert SUMMARIES[name] == (f"{sentence}." if stop else first)


@pytest.mark.parametrize(("words", "status"), [(("--help",), 0), (("tools", "lst"), 2)])
def test_a_command_that_ends_at_once_ends_properly(
    words: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    """Everything is written, the status is right, and what was registered for the end runs."""
    code = (
        "import atexit, pathlib, sys\n"
        "atexit.register(pathlib.Path('ended').touch)\n"
        f"sys.argv = ['toolcrib', *{words!r}]\n"
        "from toolcrib.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == status
    assert "model" in done.stdout if status == 0 else "lst" in done.stderr
    assert (tmp_path / "ended").exists()
