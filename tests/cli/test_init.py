"""`toolcrib init`: what it writes runs."""

import asyncio
import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import at_terminal, invoke, run, serving

pytestmark = pytest.mark.usefixtures("folder")

FILES = ["README.md", "host-tools.yaml", "policy.yaml", "workshop.py"]


@pytest.fixture
def project(folder: Path) -> Path:
    """What `init` wrote."""
    done = invoke("init", folder / "project")
    assert done.exit_code == 0, done.stderr
    return folder / "project"


def commands(project: Path) -> list[list[str]]:
    """The commands of the README, without the program's name."""
    blocks = re.findall(r"```sh\n(.*?)```", (project / "README.md").read_text("utf-8"), re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def test_it_writes_four_files_and_says_which(folder: Path) -> None:
    """The names are data; what to do next is a word beside."""
    done = invoke("init", "project")

    assert done.stdout.split() == [
        f"project/{name}" for name in ("host-tools.yaml", "workshop.py", "policy.yaml", "README.md")
    ]
    assert "toolcrib tools list" in done.stderr
    assert sorted(each.name for each in (folder / "project").iterdir()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_overwritten(folder: Path, name: str) -> None:
    """One file of that name, and nothing at all is written."""
    (folder / name).write_text("mine", "utf-8")

    done = invoke("init")

    assert (done.exit_code, done.stdout) == (1, "")
    assert "is there already" in done.stderr
    assert (folder / name).read_text("utf-8") == "mine"
    assert [each for each in FILES if (folder / each).exists()] == [name]


def test_the_readme_has_three_commands(project: Path) -> None:
    """A call that runs, a call that asks, and a server."""
    assert [line[:2] for line in commands(project)] == [
        ["tools", "call"],
        ["tools", "call"],
        ["serve", "--http"],
    ]


def test_its_policy_has_no_caution(project: Path) -> None:
    """What a beginner starts from is free of what may surprise."""
    assert invoke("policy", "check", project / "policy.yaml", "--strict").exit_code == 0


@pytest.mark.wire
def test_what_only_reads_runs(project: Path) -> None:
    """The first command of the README gives a result."""
    done = run(*commands(project)[0], cwd=project)

    assert (done.returncode, json.loads(done.stdout)) == (0, {"part": "bolts", "left": 120})


def test_what_changes_something_waits_elsewhere(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second command, off a terminal: status 4, and it is in the inbox."""
    monkeypatch.chdir(project)

    assert invoke(*commands(project)[1]).exit_code == 4
    assert "order_parts" in invoke("approvals", "list", "--store", "crib.sqlite3").stdout


@pytest.mark.slow
async def test_what_changes_something_is_asked_here(project: Path) -> None:
    """The second command, at a terminal."""
    with at_terminal(*commands(project)[1], cwd=project) as started:
        await started.answer("a")
        await started.see('"left":52')
        assert await started.exit_code() == 0


@pytest.mark.parametrize(("count", "status"), [(10, 0), (11, 4), (999, 4), (1000, 3)])
def test_its_policy_decides_by_count(
    project: Path, monkeypatch: pytest.MonkeyPatch, count: int, status: int
) -> None:
    """Small orders run, others are asked about, absurd ones are refused."""
    line = [each.replace("count=50", f"count={count}") for each in commands(project)[1]]
    monkeypatch.chdir(project)

    assert invoke(*line).exit_code == status


@pytest.mark.slow
async def test_the_server_serves_both(project: Path) -> None:
    """The third command, on a free port."""
    options = commands(project)[2][2:]

    async with serving(*options, cwd=project) as served:
        where = ("--url", served.url, "--token-file", "token")
        done = await asyncio.to_thread(run, "tools", "list", *where, "--json", cwd=project)
        assert await served.stop() == 0

    names = [each["name"] for each in json.loads(done.stdout)["tools"]]
    assert names == ["stock_level", "order_parts"]


def test_a_folder_that_cannot_be_made_is_told(folder: Path) -> None:
    """Status 1, naming the place."""
    (folder / "file").write_text("", "utf-8")

    done = invoke("init", "file/project")

    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot be written" in done.stderr
