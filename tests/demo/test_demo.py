"""`toolcrib demo` as people run it: without a terminal, and at real ones with every answer."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import AtTerminal, at_terminal, environment, run
from tests.helpers.screen import WIDTHS, past_the_edge, screen_lines
from toolcrib.demo.story import DATA, INPUTS

pytestmark = pytest.mark.slow


def orders(folder: Path) -> list[dict[str, object]]:
    """What is in the shop's book."""
    book = folder / "orders.jsonl"
    return [json.loads(line) for line in book.read_text().splitlines()] if book.exists() else []


def inputs(folder: Path, name: str, old: str, new: str) -> Path:
    """The demo's own inputs, with one word of one file changed."""
    for each in INPUTS:
        source = DATA / each
        target = folder / each
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    return folder


def test_it_runs_without_a_terminal_and_proves_what_it_did(tmp_path: Path) -> None:
    """Every step is shown, the chart is a picture, the order is in the book, and the ledger that
    another process reads holds.
    """
    folder = tmp_path / "demo"
    played = run("demo", "--folder", folder, OPENAI_API_KEY="")
    assert played.returncode == 0, played.stderr
    for line in (
        "a written scenario (no model)",
        "web_search        ok",
        "file_search       ok",
        "stock_level       ok",
        "code_interpreter  ok",
        "place_order       waiting  it needs approval",
        "approved by a rule: there is no terminal to ask at",
        "order           PO-0001",
        "kilos           480",
        "source          Kenya: late rains, smaller harvest: https://market.example/",
        "   equal",
    ):
        assert line in played.stdout
    assert (folder / "kenya.png").read_bytes().startswith(b"\x89PNG")
    assert [order["kilos"] for order in orders(folder)] == [480]
    assert "\x1b" not in played.stdout
    verified = run("audit", "verify", "--store", folder / "ledger.sqlite3")
    assert verified.returncode == 0, verified.stderr
    assert "demo" in verified.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "shown"),
    [
        ("site/kenya-harvest.html", "7.40", "9.10", ["price_per_kilo  9.1", "9.10 EUR per kilo"]),
        ("files/purchasing-policy.md", "ten weeks", "twelve weeks", ["kilos           600"]),
        (
            "files/purchasing-policy.md",
            "six weeks",
            "three weeks",
            ["order           -", "Nothing has to be ordered", "the policy keeps 3"],
        ),
    ],
)
def test_another_input_gives_another_answer(
    tmp_path: Path, name: str, old: str, new: str, shown: list[str]
) -> None:
    """What is said comes from the files of the run: one changed word changes it."""
    (tmp_path / "mine").mkdir()
    mine = inputs(tmp_path / "mine", name, old, new)
    played = run("demo", "--folder", tmp_path / "demo", "--inputs", mine, OPENAI_API_KEY="")
    assert played.returncode == 0, played.stderr
    for text in shown:
        assert text in played.stdout


async def played(demo: AtTerminal, *lines: str) -> str:
    """Type a line at each question; return all that was on the screen when the demo ended."""
    seen = ""
    for line in lines:
        seen += await demo.see()
        demo.terminal.type(f"{line}\n")
    return seen + await demo.rest()


def section(shown: str, number: int) -> str:
    """What the screen shows in one step of the demo."""
    text = "\n".join(screen_lines(shown))
    return text.split(f"\n{number}. ")[1].split(f"\n{number + 1}. ")[0]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that changes 480 kilos into 300."""
    program = tmp_path / "editor"
    program.write_text('#!/bin/sh\nsed -i s/480/300/ "$1"\n')
    program.chmod(0o755)
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.setenv(name, str(program))


@pytest.mark.parametrize("columns", WIDTHS)
async def test_a_person_who_says_yes_places_the_order(tmp_path: Path, columns: int) -> None:
    """At a terminal the person is asked, with the arguments, while a display tells what runs. No
    line leaves the terminal or breaks inside a word, and the commands can be copied.
    """
    with at_terminal(
        "demo", "--folder", "demo", cwd=tmp_path, columns=columns, OPENAI_API_KEY=""
    ) as demo:
        before = await demo.see()
        assert "480" in before
        assert "asking the model" in before or "runs" in before
        assert orders(tmp_path / "demo") == []
        demo.terminal.type("a\n")
        shown = before + await demo.rest()
        assert await demo.exit_code() == 0
    assert len(orders(tmp_path / "demo")) == 1
    assert past_the_edge(shown, columns) == []
    words = " ".join("\n".join(screen_lines(shown)).split())
    assert "(no model); its facts come from the tools of this run." in words
    assert "lasts 4.5 weeks at 47.5 kg a week, and the policy keeps 6 weeks." in words
    assert "order book PO-0001 was placed: 480 kg." in words
    commands = words.replace(" \\ ", " ")
    assert f"toolcrib demo --inputs {tmp_path}/demo/inputs" in commands
    assert f"toolcrib audit verify --store {tmp_path}/demo/ledger.sqlite3" in commands


@pytest.mark.parametrize("columns", WIDTHS)
async def test_the_timeline_fits(tmp_path: Path, columns: int) -> None:
    """Looks: every call has a whole bar, waiting has a look of its own, and a denied call says so:
    it never ran, so that its bar shows waiting alone.
    """
    with at_terminal(
        "demo", "--folder", "demo", cwd=tmp_path, columns=columns, OPENAI_API_KEY=""
    ) as demo:
        shown = await played(demo, "d", "too expensive")
        assert await demo.exit_code() == 0
    lines = section(shown, 3).split("\n")
    calls = {line.split()[0]: line for line in lines[2:7]}
    assert "denied" in calls["place_order"]
    assert "\N{FULL BLOCK}" not in calls["place_order"]
    assert "\N{LIGHT SHADE}" in calls["place_order"]
    assert all("\N{FULL BLOCK}" in calls[name] for name in ("web_search", "code_interpreter"))
    assert "waits for approval" in lines[7]
    assert "…" not in "".join(lines)
    assert past_the_edge(shown, columns) == []


async def test_a_person_who_says_no_orders_nothing(tmp_path: Path) -> None:
    """The answer says that nothing was ordered, of no kilos; the chart is kept all the same, and
    the rest of the proof still holds.
    """
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        shown = await played(demo, "d", "too dear")
        assert await demo.exit_code() == 0
    assert "place_order       denied   it did not run: too dear" in shown
    assert "kilos           0" in shown
    assert "Nothing was ordered" in shown
    assert "stock_level, over HTTP and MCP" in shown
    assert orders(folder) == []
    assert (folder / "kenya.png").exists()


async def test_an_answer_in_the_tools_place_places_no_order(tmp_path: Path) -> None:
    """Newcomers 1: who answers instead said that it shall not run: not here, not over HTTP, not
    over MCP, and the screen says that it did not, whatever the answer claims.
    """
    folder = tmp_path / "demo"
    order = {"order": "PO-9", "item": "kenya", "kilos": 480, "price_per_kilo": 7.4, "total": 3552}
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        shown = await played(demo, "r", json.dumps(order))
        assert await demo.exit_code() == 0
    assert "place_order       answered it did not run" in shown
    assert "order book      Nothing was ordered." in shown
    assert "stock_level, over HTTP and MCP" in shown
    assert orders(folder) == []


@pytest.mark.usefixtures("editor")
async def test_an_edited_order_is_the_one_that_is_told(tmp_path: Path) -> None:
    """Newcomers 2: the answer speaks of the order that was placed, with the kilos of the person,
    and the chart is shown and kept.
    """
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        shown = await played(demo, "e", "a")
        assert await demo.exit_code() == 0
    answer = section(shown, 2)
    assert "order           PO-0001" in answer
    assert "kilos           300" in answer
    assert "order book      PO-0001 was placed: 300 kg." in answer
    assert "kenya.png" in answer
    assert "Nothing was ordered" not in shown
    assert [order["kilos"] for order in orders(folder)] == [300]
    assert (folder / "kenya.png").exists()


async def test_nobody_decides_and_the_order_waits(tmp_path: Path) -> None:
    """Newcomers 3: Ctrl-D leaves the question open: nothing is ordered, and the commands to go on
    are shown and work.
    """
    with at_terminal(
        "demo", "--folder", "demo", cwd=tmp_path, columns=60, OPENAI_API_KEY=""
    ) as demo:
        before = await demo.see()
        demo.terminal.type("\x04")
        shown = before + await demo.rest()
        assert await demo.exit_code() == 4
    assert "Traceback" not in shown
    assert past_the_edge(shown, 60) == []
    end = section(shown, 2)
    assert end.startswith("Nothing was ordered")
    assert orders(tmp_path / "demo") == []
    listed, denied, console = (
        " ".join(part.split("\\\n")).splitlines()[0] for part in end.split("toolcrib ")[1:]
    )
    assert shlex.split(console)[-4:] == ["serve", "--port", "0", "--open"]
    assert "place_order" in run(*shlex.split(listed)).stdout
    refused = run(*shlex.split(denied))
    assert (refused.returncode, "denied place_order" in refused.stderr) == (0, True)


async def test_ctrl_c_stops_it_and_says_what_was_ordered(tmp_path: Path) -> None:
    """No traceback, the status of an interrupted command, and the truth about the order."""
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        await demo.see()
        demo.terminal.type("\x03")
        shown = await demo.rest()
        assert await demo.exit_code() == 130
    assert "place_order       stopped" in shown
    assert "Stopped. Nothing was ordered." in shown
    assert "Traceback" not in shown
    assert orders(folder) == []


def test_after_a_minimal_install_it_says_in_one_line_what_to_install(tmp_path: Path) -> None:
    """Newcomers 4: no traceback, nothing is begun, and one command installs all that is missing."""
    program = tmp_path / "minimal.py"
    program.write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('openai', 'mcp', 'pandas'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "sys.argv = ['toolcrib', 'demo', '--folder', 'demo']\n"
        "from toolcrib.cli import main\n"
        "main()\n",
        "utf-8",
    )
    refused = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(),
    )

    assert refused.returncode == 1
    [line] = refused.stderr.splitlines()
    assert "the demo needs more packages; install them with: pip install" in line
    assert "[demo]" in line
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    """Nothing is written among things of others."""
    (tmp_path / "mine.txt").write_text("mine")
    refused = run("demo", "--folder", tmp_path, OPENAI_API_KEY="")
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--backend", "oracle"), "unknown backend 'oracle'"),
        (("--backend", "openai"), "OpenAI needs OPENAI_API_KEY"),
        (("--base-url", "http://127.0.0.1:9/v1"), "needs --base-url and --model"),
        (("--inputs", "absent"), "the inputs need"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    """The error names what is missing."""
    refused = run("demo", "--folder", tmp_path / "demo", *options, cwd=tmp_path, OPENAI_API_KEY="")
    assert refused.returncode == 1
    assert why in refused.stderr
