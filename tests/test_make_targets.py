"""What the pages, the hooks and the hosted CI tell people to run is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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
