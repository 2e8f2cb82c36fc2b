"""What every test shares: how Hypothesis runs, and where a test may put its database."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The CI must fail on the change that broke something, so it draws the same examples every time.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """A path for a SQLite file that does not exist yet."""
    return tmp_path / "toolcrib.sqlite3"
