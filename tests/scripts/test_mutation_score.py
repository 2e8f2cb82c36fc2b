"""The mutation score counts honestly: what was not run or not noticed never counts as caught."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutation_score.py"


def score(results: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        input=results,
        capture_output=True,
        text=True,
        check=False,
    )


def test_enough_caught_passes() -> None:
    """A score at the limit is good enough; a hang counts as noticed."""
    done = score("    a.x: killed\n    a.y: timeout\n    a.z: survived\n    a.w: killed\n", "75")

    assert done.returncode == 0
    assert "survived: a.z\n" in done.stdout
    assert "score 75.0%: 3 of 4 caught, 75% needed" in done.stdout


@pytest.mark.parametrize("status", ["survived", "no tests", "suspicious"])
def test_too_few_caught_fails(status: str) -> None:
    """A mutant that no test noticed, or no test reached, lowers the score."""
    done = score(f"a.x: killed\na.y: {status}\n", "85")

    assert done.returncode == 1
    assert f"{status}: a.y\n" in done.stdout
    assert "score 50.0%" in done.stdout


@pytest.mark.parametrize("results", ["", "a.x: killed\na.y: not checked\n", "a.x: skipped\n"])
def test_without_all_verdicts_there_is_no_score(results: str) -> None:
    """A run that broke off, or had nothing to do, is not a pass."""
    done = score(results, "0")

    assert done.returncode == 1
    assert "no score" in done.stdout


def test_a_pattern_narrows_the_score() -> None:
    """Mutants that were not asked for do not count, run or not."""
    done = score("calls.x: killed\nstore.y: not checked\n", "100", "calls.*")

    assert done.returncode == 0
    assert "1 of 1 caught" in done.stdout
