"""`toolcrib demo` as people run it: without a terminal, and at a real one with yes and no."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import at_terminal, run
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
        "place_order needs approval",
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
            ["order           None", "Nothing has to be ordered", "the policy keeps 3"],
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


async def test_a_person_who_says_yes_places_the_order(tmp_path: Path) -> None:
    """At a terminal the person is asked, with the arguments, while a display tells what runs."""
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        before = await demo.see()
        assert "place_order" in before
        assert "480" in before
        assert "asking the model" in before or "runs" in before
        assert orders(folder) == []
        demo.terminal.type("a\n")
        rest = await demo.see("see what changes")
        assert "PO-0001" in rest
        assert await demo.exit_code() == 0
    assert len(orders(folder)) == 1


async def test_a_person_who_says_no_orders_nothing(tmp_path: Path) -> None:
    """The answer says that nothing was ordered, and the rest of the proof still holds."""
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        await demo.answer("d", "too dear")
        shown = await demo.see("see what changes")
        assert "Nothing was ordered" in shown
        assert "equal" in shown
        assert await demo.exit_code() == 0
    assert orders(folder) == []


async def test_an_answer_in_the_tools_place_places_no_order(tmp_path: Path) -> None:
    """Who answers instead said that it shall not run: not here, not over HTTP, not over MCP."""
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        await demo.answer("r", '{"order": "PO-9"}')
        shown = await demo.see("see what changes")
        assert "stock_level, over HTTP and MCP" in shown
        assert await demo.exit_code() == 0
    assert orders(folder) == []


async def test_an_edited_order_is_the_one_that_is_told(tmp_path: Path) -> None:
    """The answer speaks of the order that was placed, with the kilos of the person."""
    folder, editor = tmp_path / "demo", tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/480/300/ "$1"\n')
    editor.chmod(0o755)
    variables = {"OPENAI_API_KEY": "", "EDITOR": str(editor), "VISUAL": str(editor)}
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, **variables) as demo:
        await demo.answer("e", "a")
        shown = await demo.see("see what changes")
        assert "order           PO-0001" in shown
        assert "kilos           300" in shown
        assert "Nothing was ordered" not in shown
        assert await demo.exit_code() == 0
    assert [order["kilos"] for order in orders(folder)] == [300]


async def test_nobody_decides_and_the_order_waits(tmp_path: Path) -> None:
    """Ctrl-D leaves the question open: nothing is ordered, and the commands to go on are shown."""
    folder = tmp_path / "demo"
    with at_terminal("demo", "--folder", folder, cwd=tmp_path, OPENAI_API_KEY="") as demo:
        await demo.see()
        demo.terminal.type("\x04")
        shown = await demo.see("approvals deny ID")
        assert "Nothing was ordered" in shown
        assert "Traceback" not in shown
        assert await demo.exit_code() == 4
    assert orders(folder) == []
    waiting = run("approvals", "list", "--store", folder / "ledger.sqlite3")
    assert "place_order" in waiting.stdout


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
