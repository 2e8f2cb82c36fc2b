"""What the pages, the hooks and the hosted CI tell people to run is there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.cli.output import DEMO_EXTRAS

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = frozenset(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def named_targets(text: str) -> set[str]:
    """The targets in `make TARGET` where it is code: in backticks, or at the start of a command."""
    return set(re.findall(r"(?:`|^|&& |entry: |run: )make ([a-z-]+)", text, re.MULTILINE))


def workflow_jobs() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]


def test_the_help_lists_every_target() -> None:
    """A target without its line in `make help` is not found; one that is not phony may not run."""
    listed = set(re.findall(r"^([a-z-]+):.*## \S", MAKEFILE, re.MULTILINE))
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)

    assert phony is not None
    assert TARGETS == listed == set(phony[1].replace("\\\n", " ").split())


@pytest.mark.parametrize(
    "name", [".github/workflows/ci.yml", ".pre-commit-config.yaml", "CONTRIBUTING.md", "README.md"]
)
def test_a_target_that_is_named_exists(name: str) -> None:
    """A reader who runs what a page says gets no error from make."""
    targets = named_targets((ROOT / name).read_text("utf-8"))

    assert targets
    assert targets - TARGETS == set()


def test_the_hosted_ci_runs_everything() -> None:
    """Every commit is checked on each Python that the package supports."""
    metadata = (ROOT / "pyproject.toml").read_text("utf-8")
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    jobs = workflow_jobs()

    assert {"check", "test", "docs", "dist"} <= named_targets(WORKFLOW.read_text("utf-8"))
    assert jobs["check"]["strategy"]["matrix"]["python"] == supported
    assert jobs["dist"]["strategy"]["matrix"]["python"] == supported


def test_the_hooks_before_a_commit_fetch_nothing() -> None:
    """Hooks run the tools of the environment, so they agree with the CI and need no network."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))

    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    assert {hook["language"] for hook in config["repos"][0]["hooks"]} == {"system"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that the rules for environments look at, and a full environment's stamp."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "scripts/venv.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv").mkdir()
    return tmp_path


def planned(target: str, folder: Path) -> str:
    """What make would run."""
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_demo_installs_only_what_it_needs(checkout: Path) -> None:
    """A newcomer does not wait for linters, SDKs of other providers and a local model."""
    assert "'.[demo,reload]'" in planned("demo", checkout)
    assert "dev" not in planned("demo", checkout)


def test_the_rest_is_installed_after_the_demo(checkout: Path) -> None:
    """The demo's stage of the environment does not pass for all of it."""
    (checkout / ".venv" / ".installed-demo").touch()

    assert "venv.sh" not in planned("demo", checkout)
    assert "venv.sh" in planned("lint", checkout)


def test_the_demo_runs_in_the_full_environment(checkout: Path) -> None:
    """It holds all that the demo needs, so that nothing is installed again."""
    full = planned("lint", checkout)

    assert "touch .venv/.installed .venv/.installed-demo" in full


def test_the_demo_extra_is_what_the_command_asks_for() -> None:
    """`toolcrib demo` names exactly what its extra installs."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    [parts] = [line for line in extras["demo"] if line.startswith("toolcrib[")]

    assert parts == f"toolcrib[{','.join(DEMO_EXTRAS)}]"
    assert {line.partition(">")[0] for line in extras["demo"]} == {"matplotlib", parts}


def test_the_environment_of_developers_has_every_extra() -> None:
    """A new extra is installed where its tests run, and its packages are pinned."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    [chosen] = re.findall(r"^EXTRAS := (\S+)$", MAKEFILE, re.MULTILINE)
    # Their packages come with others of these, or live in an environment of their own.
    elsewhere = {"anthropic", "bench", "demo", "google", "telemetry"}
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    named = [
        re.split(r"[\[<>=!~; ]", line)[0]
        for name, lines in extras.items()
        if name != "bench"
        for line in lines
    ]

    assert set(chosen.split(",")) == extras.keys() - elsewhere
    assert {normal(name) for name in named} - {normal(pin) for pin in pins} == {"toolcrib"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
