"""The examples run, as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.patience import PATIENCE

pytestmark = pytest.mark.wire  # every test starts processes

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )


def test_the_support_desk_survives_its_own_kill_and_proves_it() -> None:
    """The first process dies with a call waiting; the second goes on and verifies."""
    done = run("support_desk/run.py")

    assert done.returncode == 0, done.stderr
    assert "the process is killed" in done.stdout
    assert "refund         completed  Refunded 49.90 EUR for A-17." in done.stdout
    assert "not_permitted" in done.stdout
    assert "ledger verified: 10 records" in done.stdout
    assert "files that hold the card token: none" in done.stdout
    assert "refunds in the books: 1" in done.stdout


def test_an_agent_waits_for_a_person_and_goes_on() -> None:
    """The refund runs once, after the yes, in a session that was opened anew."""
    done = run("agent_desk.py")

    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("2. Somebody says yes")
    assert "waits: refund" in before
    assert "money leaves the account" in before
    assert "Refunded" not in before
    assert "refund -> Refunded 49.90 EUR for A-17." in after
    assert "approve by person ada" in after
    assert "The customer has the money back." in after
    assert "ledger verified" in after


def test_tools_of_somebody_else_are_governed() -> None:
    """A plain function of another toolset waits for a person, and runs after the yes."""
    done = run("governed_agent.py")

    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("2. Somebody says yes")
    assert "waiting: toolset:files/delete_file {'path': 'a.txt'}" in before
    assert "deleted" not in before
    assert "ann: delete_file -> deleted a.txt" in after
    assert "decided: delete_file approve by person bob" in after


def test_a_stream_shows_what_happens_while_it_does() -> None:
    """Reasoning, arguments, progress, code and its output come before the answer, in order."""
    done = run("live_stream.py")

    assert done.returncode == 0, done.stderr
    seen = [
        "[thinks] I need the readings first",
        '[readings] the model writes {"meter": "A-17"}',
        "[readings] 3 readings",
        "[code_interpreter] runs print(",
        "[code_interpreter] printed 9.0",
        "The mean of meter A-17 is 9.0",
        "1 hosted call",
    ]
    places = [done.stdout.find(each) for each in seen]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.slow
def test_the_data_analyst_finds_what_is_in_the_readings(tmp_path: Path) -> None:
    """The code runs for real: it finds the weeks, and leaves a chart and cleaned readings."""
    done = run("data_analyst/run.py")

    assert done.returncode == 0, done.stderr
    assert "saved usage.png" in done.stdout
    assert "saved cleaned.csv" in done.stdout
    [weeks] = re.findall(r"unusual weeks: (.*)", done.stdout)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d(, \d{4}-\d\d-\d\d)*", weeks)

    calm = tmp_path / "readings.csv"
    days = [f"2025-{month:02}-{day:02}" for month in (1, 2) for day in (1, 8, 15, 22)]
    rows = [f"{day},{100 * at}" for at, day in enumerate(days)]
    calm.write_text("\n".join(["date,meter_kwh", *rows, ""]))
    other = run("data_analyst/run.py", "--readings", calm)
    assert other.returncode == 0, other.stderr
    assert "a usual week: 100.0 kWh" in other.stdout
    assert "unusual weeks: none" in other.stdout


@pytest.mark.slow
def test_the_research_assistant_cites_the_pages_it_read(tmp_path: Path) -> None:
    """Every number in the answer is a page, and other pages give another answer."""
    done = run("research_assistant/run.py")

    assert done.returncode == 0, done.stderr
    numbers = set(re.findall(r"\[(\d+)\](?! )", done.stdout))
    notes = re.findall(r"^\[(\d+)\] .+: https://homes\.example/\S+$", done.stdout, re.MULTILINE)
    assert notes
    assert numbers <= set(notes)

    for page in (EXAMPLES / "research_assistant" / "pages").iterdir():
        text = re.sub(r"[0-9]+", "77", page.read_text("utf-8"))
        (tmp_path / page.name).write_text(text, "utf-8")
    other = run("research_assistant/run.py", "--pages", tmp_path)
    assert other.returncode == 0, other.stderr
    assert "77" in other.stdout
    assert "77" not in done.stdout


@pytest.mark.slow
def test_the_editor_agent_changes_a_file_once_the_editor_allows_it() -> None:
    """The change is shown before, asked for, and checked after."""
    done = run("editor_agent/run.py")

    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("may the agent change cart.py?")
    assert "with_docstring: completed" in before
    assert '+    """What the articles cost with tax, in whole cents."""' in after
    assert "ide_write_file" in after
    assert "`gross` (line 11) had no docstring." in after
    assert "Functions without one now: 0." in after
    assert "the agent is done: end_turn" in after.lower()


@pytest.mark.slow
def test_the_editor_agent_changes_nothing_when_it_may_not() -> None:
    """The file stays, and the answer says how many docstrings are still missing."""
    done = run("editor_agent/run.py", "--deny")

    assert done.returncode == 0, done.stderr
    assert "denied, no terminal to ask at" in done.stdout
    assert "Functions without one now: 1." in done.stdout
    assert "in whole cents" not in done.stdout.split("3. The file")[1]


@pytest.mark.slow
def test_the_gateway_lets_through_what_the_policy_and_a_person_allow() -> None:
    """One tool runs, one is denied, and one runs after the yes; the ledger holds."""
    done = run("gateway/run.py")

    assert done.returncode == 0, done.stderr
    assert "notes_search: ok: The saw is at the shop." in done.stdout
    assert "notes_delete_all: error" in done.stdout
    before, after = done.stdout.split("3. Somebody says yes")
    assert "notes_add: ok" not in before
    assert "notes_add: ok" in after
    assert re.search(r"^  local:mcp_\w+ 9 [0-9a-f]{64}$", after, re.MULTILINE)
