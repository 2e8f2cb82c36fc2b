"""The contract of the layers fails on an upward import and on a cycle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package, with the contract of the repository."""
    shutil.copytree(
        ROOT / "src" / "toolcrib",
        tmp_path / "src" / "toolcrib",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run `lint-imports` as `make lint` does, on the copy."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )


def add_import(tree: Path, importer: str, imported: str) -> None:
    """Import a module inside of a function, where no import error shows the cycle."""
    path = tree / "src" / Path(*importer.split(".")).with_suffix(".py")
    path.write_text(f"{path.read_text('utf-8')}\n\ndef _late():\n    import {imported}\n", "utf-8")


def test_the_package_keeps_the_contract(tree: Path) -> None:
    """Without a change nothing is reported, so the failures below are of the added imports."""
    report = lint(tree)

    assert report.returncode == 0, report.stdout


def test_an_upward_import_fails(tree: Path) -> None:
    """A layer that imports one above it is named, also when the import is late."""
    add_import(tree, "toolcrib.ledger.record", "toolcrib.runtime.service")
    report = lint(tree)

    assert report.returncode == 1
    assert "toolcrib.ledger.record -> toolcrib.runtime.service" in report.stdout


def test_an_import_between_two_packages_of_one_layer_fails(tree: Path) -> None:
    """Packages that share a layer are independent of each other."""
    add_import(tree, "toolcrib.mcp_client.config", "toolcrib.sandbox.command")
    report = lint(tree)

    assert report.returncode == 1
    assert "toolcrib.mcp_client.config -> toolcrib.sandbox.command" in report.stdout


def test_a_cycle_between_two_modules_of_a_package_fails(tree: Path) -> None:
    """Within a package the order is free, but there is one."""
    add_import(tree, "toolcrib.serving.origins", "toolcrib.serving.tokens")
    add_import(tree, "toolcrib.serving.tokens", "toolcrib.serving.origins")
    report = lint(tree)

    assert report.returncode == 1
    assert "No cycles are allowed in toolcrib.serving." in report.stdout


def test_make_lint_checks_the_contract() -> None:
    """A contract that nobody runs holds nothing."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.split("\nlint:")[1].split("\n\n")[0]

    assert "lint-imports" in recipe
