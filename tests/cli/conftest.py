"""A folder to run commands in."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import MODULES, write_modules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the command runs in, with tools and a scripted model; nothing of it stays
    imported, and no server or token of whoever runs the tests is used.
    """
    write_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("TOOLCRIB_URL", "TOOLCRIB_TOKEN", "TOOLCRIB_OWNER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)
