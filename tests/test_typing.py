"""The type checker that guards typing_tests/ really guards it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.wire  # every test starts processes

ROOT = Path(__file__).parents[1]
TYPING_TESTS = ROOT / "typing_tests"


def rules_broken(code: str, tmp_path: Path) -> list[str]:
    """The rules that pyright, set up as for this project, reports for `code`."""
    (tmp_path / "sample.py").write_text(code, "utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project_rules()), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--project", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return [found["rule"] for found in report["generalDiagnostics"]]


def project_rules() -> dict[str, Any]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    paths = {"include", "exclude", "ignore", "strict", "executionEnvironments"}
    rules = {name: value for name, value in config.items() if name not in paths}
    rules["strict"] = ["."]
    return rules | {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}


def test_a_users_type_error_is_reported(tmp_path: Path) -> None:
    """R7: the package ships its types, so misuse is an error in the user's own code."""
    code = "import toolcrib\n\nversion: int = toolcrib.__version__\n"

    assert rules_broken(code, tmp_path) == ["reportAssignmentType"]


def test_an_ignore_that_hides_nothing_is_reported(tmp_path: Path) -> None:
    """A typing test that must be rejected fails when the checker begins to accept it."""
    code = "fine: int = 1  # pyright: ignore[reportAssignmentType]\n"

    assert rules_broken(code, tmp_path) == ["reportUnnecessaryTypeIgnoreComment"]


def test_the_typing_tests_are_checked() -> None:
    """typing_tests/ holds files, and the type checker's configuration includes them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]

    assert "typing_tests" in config["include"]
    assert "typing_tests" in config["strict"]
    assert list(TYPING_TESTS.glob("*.py"))
