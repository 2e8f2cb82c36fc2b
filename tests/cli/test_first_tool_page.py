"""The page "Ten minutes to a governed tool": what it shows is what `init` writes, and its commands
do what it says.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, invoke, run

PAGE = (Path(__file__).parents[2] / "docs" / "first-tool.md").read_text("utf-8")

pytestmark = pytest.mark.usefixtures("folder")


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def project(folder: Path) -> Path:
    """What the page's own command makes."""
    line = blocks("sh")[0].splitlines()[1].split(" && ")[0]
    assert invoke(*shlex.split(line)[1:]).exit_code == 0
    return folder / "workshop"


def test_the_page_shows_what_is_written(project: Path) -> None:
    """The tools and the project file, word for word."""
    code = blocks("python")[0].removeprefix("# workshop.py\n")
    settings = [
        line
        for line in (project / "toolcrib.yaml").read_text("utf-8").splitlines()
        if not line.startswith("#")
    ]

    assert (project / "workshop.py").read_text("utf-8").endswith(code)
    assert blocks("yaml")[0].splitlines() == settings


@pytest.mark.slow
def test_its_calls_end_as_it_says(project: Path) -> None:
    """Two run, one waits, one is denied; each is a command of its own."""
    lines = blocks("sh")[1].splitlines()
    done = [run(*shlex.split(line)[1:], cwd=project) for line in lines]

    assert [each.returncode for each in done] == [0, 0, 4, 3]
    assert [each.stdout for each in done] == ["120\n", "7\n", "", ""]
    assert "toolcrib approvals approve" in done[2].stderr


@pytest.mark.wire
def test_its_test_command_passes(project: Path) -> None:
    """As a reader runs it."""
    command, *arguments = shlex.split(blocks("sh")[2])
    done = subprocess.run(
        [sys.executable, "-m", command, *arguments, "-p", "no:cacheprovider"],
        cwd=project,
        env=environment(),
        check=False,
    )

    assert done.returncode == 0


def test_the_second_way_goes_with_the_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block is a project file: tools of a module and of a YAML file."""
    (project / "toolcrib.yaml").write_text(blocks("yaml")[-1], "utf-8")
    (project / "host-tools.yaml").write_text(
        "tools:\n  - name: look\n    module: workshop\n    function: stock_level\n", "utf-8"
    )
    monkeypatch.chdir(project)

    listed = invoke("tools", "list").stdout

    assert all(name in listed for name in ("look", "stock_level", "order_parts"))
