"""`toolcrib init`: what it writes runs, and its policy is in force."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import at_terminal, environment, invoke, run

pytestmark = pytest.mark.usefixtures("folder")

FILES = [
    ".gitignore",
    "README.md",
    "policy.yaml",
    "test_workshop.py",
    "toolcrib.yaml",
    "workshop.py",
]


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


def test_it_writes_its_files_and_says_which(folder: Path) -> None:
    """The names are data; the next command is a word beside."""
    done = invoke("init", "my project")

    assert sorted(done.stdout.splitlines()) == [f"my project/{name}" for name in FILES]
    assert "next: cd 'my project' && toolcrib dev" in done.stderr
    assert sorted(each.name for each in (folder / "my project").iterdir()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_overwritten(folder: Path, name: str) -> None:
    """One file of that name, and nothing at all is written."""
    (folder / name).write_text("mine", "utf-8")

    done = invoke("--no-project", "init")

    assert (done.exit_code, done.stdout) == (1, "")
    assert "is there already" in done.stderr
    assert (folder / name).read_text("utf-8") == "mine"
    assert [each for each in FILES if (folder / each).exists()] == [name]


def test_newcomers_b_the_tools_are_a_few_lines_of_python(project: Path) -> None:
    """Newcomers B: typed functions, no schema by hand."""
    code = (project / "workshop.py").read_text("utf-8")
    lines = [line for line in code.splitlines() if line.strip()]

    assert len(lines) <= 16
    assert code.count("@tool") == 2
    assert "dict[str, Any]" not in code


def test_the_readme_has_commands_to_run(project: Path) -> None:
    """A call that runs, one that asks, one that is denied, and a server; none needs an option."""
    assert commands(project) == [
        ["tools", "call", "stock_level", "part=bolts"],
        ["tools", "call", "order_parts", "part=saws", "count=50"],
        ["tools", "call", "order_parts", "part=saws", "count=5000"],
        ["dev"],
    ]


def test_its_policy_has_no_caution(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a beginner starts from is free of what may surprise, also with the real tools."""
    monkeypatch.chdir(project)

    assert invoke("policy", "check", "policy.yaml", "--strict").exit_code == 0


@pytest.mark.wire
def test_what_only_reads_runs(project: Path) -> None:
    """The first command of the README gives a result."""
    done = run(*commands(project)[0], cwd=project)

    assert (done.returncode, json.loads(done.stdout)) == (0, 120)


def test_what_changes_something_waits_elsewhere(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second command, off a terminal: status 4, and it is in the inbox of the folder."""
    monkeypatch.chdir(project)

    done = invoke(*commands(project)[1])
    (approval,) = re.findall(r"toolcrib approvals approve (\S+)\n", done.stderr)

    assert done.exit_code == 4
    assert "order_parts" in invoke("approvals", "list").stdout
    # The hint is the command that works here, without an option.
    assert invoke("approvals", "approve", approval).exit_code == 0


@pytest.mark.slow
async def test_what_changes_something_is_asked_here(project: Path) -> None:
    """The second command, at a terminal."""
    with at_terminal(*commands(project)[1], cwd=project) as started:
        await started.answer("a")
        await started.see("52")
        assert await started.exit_code() == 0


@pytest.mark.parametrize(("count", "status"), [(10, 0), (11, 4), (999, 4), (1000, 3), (5000, 3)])
def test_newcomers_5_its_policy_is_in_force(
    project: Path, monkeypatch: pytest.MonkeyPatch, count: int, status: int
) -> None:
    """Newcomers 5: with no option at all, small orders run, others are asked about, absurd ones
    are denied.
    """
    monkeypatch.chdir(project)

    done = invoke("tools", "call", "order_parts", "part=saws", f"count={count}")

    assert done.exit_code == status


@pytest.mark.wire
def test_its_test_passes(project: Path) -> None:
    """With pytest alone, in the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "4 passed" in done.stdout
    assert done.returncode == 0


def test_its_own_files_are_ignored_by_git(project: Path) -> None:
    """The store and tokens are not for a repository."""
    ignored = (project / ".gitignore").read_text("utf-8").splitlines()

    assert {"crib.sqlite3*", "*.token", "tokens.json"} <= set(ignored)


def test_a_folder_that_cannot_be_made_is_told(folder: Path) -> None:
    """Status 1, naming the place."""
    (folder / "file").write_text("", "utf-8")

    done = invoke("init", "file/project")

    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot be written" in done.stderr
