"""What every test shares: how Hypothesis runs, and where a test may put its database."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The CI must fail on the change that broke something, so it draws the same examples every time.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None)
# The mutation run calls pytest several times in one process, each time with new test classes.
settings.register_profile(
    "mutants",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
_is_mutated = "MUTANT_UNDER_TEST" in os.environ
settings.load_profile("mutants" if _is_mutated else "ci" if os.environ.get("CI") else "local")


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """A path for a SQLite file that does not exist yet."""
    return tmp_path / "toolcrib.sqlite3"
